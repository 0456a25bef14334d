"""How many secrets the redactor finds by name or shape, and how often it takes harmless text for one.

Secrets are made by format from a seed, so none stands in the repository. Each kind is made several times, in
lines as they occur in settings, code, headers and logs. Harmless lines hold what looks like a secret and is
none: placeholders, references, documented examples, digests, ids, encoded images, code and translations.

`python -m evals secrets [--json] [--list]`
"""

from __future__ import annotations

import json
import random
import string
import sys
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from placet.redaction import Redactor

SEED = 20_261_118
EACH = 4
"""How often each kind of secret is made."""

_LOWER = string.ascii_lowercase + string.digits
_MIXED = string.ascii_letters + string.digits
_UPPER = string.ascii_uppercase + string.digits
_HEX = "0123456789abcdef"


class Line(NamedTuple):
    """One line to look at."""

    kind: str
    text: str
    secret: str = ""
    """Empty in a harmless line."""


class Score(NamedTuple):
    """What came of both sets."""

    secrets: int
    found: int
    harmless: int
    alarms: int
    missed: dict[str, int]
    alarmed: dict[str, int]


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, letters: str, size: int) -> str:
        return "".join(self.random.choice(letters) for _ in range(size))

    def base64(self, size: int) -> str:
        return b64encode(self.random.randbytes(size)).decode()

    def url_safe(self, size: int) -> str:
        return urlsafe_b64encode(self.random.randbytes(size)).decode().rstrip("=")

    def uuid(self) -> str:
        return "-".join(self.of(_HEX, size) for size in (8, 4, 4, 4, 12))

    def password(self) -> str:
        return self.of(_MIXED, 4) + self.random.choice("!#%+*") + self.of(_MIXED, 8)


Make = Callable[[_Maker], str]

_KINDS: dict[str, tuple[Make, str]] = {
    "aws access key": (lambda m: "AK" + "IA" + m.of(_UPPER, 16), "aws_access_key_id = {}"),
    "aws secret key": (lambda m: m.base64(30), "aws_secret_access_key = {}"),
    "github classic": (lambda m: "gh" + "p_" + m.of(_MIXED, 36), "remote: using {} for github.com"),
    "github server": (lambda m: "gh" + "s_" + m.of(_MIXED, 36), "token expires soon ({})"),
    "github fine-grained": (
        lambda m: "github" + "_pat_" + m.of(_MIXED, 22) + "_" + m.of(_MIXED, 59),
        "login {}",
    ),
    "gitlab": (lambda m: "gl" + "pat-" + m.of(_MIXED, 20), "git clone with {}"),
    "slack bot": (lambda m: "xo" + "xb-" + m.of(string.digits, 12) + "-" + m.of(_MIXED, 24), "SLACK: {}"),
    "slack webhook": (
        lambda m: "T" + m.of(_UPPER, 8) + "/B" + m.of(_UPPER, 8) + "/" + m.of(_MIXED, 24),
        "curl https://hooks." + "slack.com/services/{}",
    ),
    "stripe": (lambda m: "sk" + "_live_" + m.of(_MIXED, 24), "stripe.Charge.create failed for {}"),
    "google api": (lambda m: "AI" + "za" + m.of(_MIXED, 35), "https://maps.example.org/js?key={}"),
    "google oauth": (lambda m: "ya" + "29." + m.of(_MIXED, 60), "refreshed {}"),
    "npm": (lambda m: "np" + "m_" + m.of(_MIXED, 36), "//registry/:_authToken={}"),
    "pypi": (lambda m: "py" + "pi-AgEI" + m.of(_MIXED, 60), "twine upload -u __token__ {}"),
    "hugging face": (lambda m: "h" + "f_" + m.of(string.ascii_letters, 34), "HfApi: {}"),
    "openai": (lambda m: "s" + "k-" + m.of(_MIXED, 48), "Incorrect API key provided: {}"),
    "anthropic": (lambda m: "s" + "k-ant-api03-" + m.of(_MIXED, 90), "x-api-key: {}"),
    "sendgrid": (lambda m: "S" + "G." + m.of(_MIXED, 22) + "." + m.of(_MIXED, 43), "mail via {}"),
    "jwt": (lambda m: f"ey{'J'}{m.url_safe(18)}.ey{'J'}{m.url_safe(40)}.{m.url_safe(32)}", "id={}"),
    "bearer": (lambda m: m.of(_MIXED, 40), "Authorization: Bearer {}"),
    "basic": (lambda m: m.base64(20), "authorization: Basic {}"),
    "url password": (lambda m: m.of(_MIXED, 14), "postgresql://app:{}@db.internal:5432/main"),
    "private key": (
        lambda m: m.base64(48),
        "-----BEGIN " + "PRIVATE KEY-----\\n{}\\n-----END " + "PRIVATE KEY-----",
    ),
    "ini password": (lambda m: m.password(), "password = {}"),
    "yaml password": (lambda m: m.password(), "    db_password: '{}'"),
    "json key": (lambda m: m.of(_MIXED, 32), '{{"api_key": "{}", "region": "eu"}}'),
    "env password": (lambda m: m.password(), "export PGPASSWORD={}"),
    "flag": (lambda m: m.password(), "mysql --user=root --password {} -h db"),
    "cookie": (lambda m: m.of(_HEX, 32), "Cookie: session={}; theme=dark"),
    "account key": (lambda m: m.base64(64), "DefaultEndpointsProtocol=https;AccountKey={}"),
    "client secret": (lambda m: m.url_safe(24), "clientSecret: '{}',"),
    "heroku": (lambda m: m.uuid(), "HEROKU_API_KEY={}"),
    "hex token": (lambda m: m.of(_HEX, 40), "auth_token: {}"),
    "passphrase": (
        lambda m: " ".join(m.of(string.ascii_lowercase, m.random.randint(4, 8)) for _ in range(4)),
        'passphrase = "{}"',
    ),
    "word password": (lambda m: m.of(string.ascii_lowercase, 9), "password: {}"),
    "dotted password": (lambda m: f"{m.of(_LOWER, 6)}.{m.of(_LOWER, 6)}7", "smtp_pass={}"),
    "digital ocean": (lambda m: "dop" + "_v1_" + m.of(_HEX, 64), "doctl auth init -t {}"),
    "vault": (lambda m: "hv" + "s." + m.of(_MIXED, 24), "vault login {}"),
    "groq": (lambda m: "gs" + "k_" + m.of(_MIXED, 52), "using {} for the model"),
    "docker": (lambda m: "dckr" + "_pat_" + m.of(_MIXED, 27), "docker login -u me with {}"),
    "telegram": (lambda m: "AA" + m.url_safe(25)[:33], "bot 123456789:{} started"),
    "kubernetes": (lambda m: m.base64(90), "    client-key-data: {}"),
    "databricks": (lambda m: "da" + "pi" + m.of(_HEX, 32), "workspace {} ok"),
}


def secrets(seed: int = SEED) -> list[Line]:
    """At least 100 secrets of at least 20 kinds, each in a line."""
    maker = _Maker(seed)
    made = []
    for kind, (make, line) in _KINDS.items():
        for _ in range(EACH):
            secret = make(maker)
            made.append(Line(kind, line.format(secret), secret))
    return made


_NAMES = (
    "password",
    "api_key",
    "API_KEY",
    "client_secret",
    "auth_token",
    "DB_PASSWORD",
    "secretKey",
    "accessToken",
)
_PLACEHOLDERS = (
    *(
        "<your-key>",
        "<password>",
        "<API_KEY>",
        "your-api-key",
        "your_api_key_here",
        "YOUR_TOKEN_HERE",
        "changeme",
    ),
    *(
        "change-me",
        "CHANGE_ME",
        "xxxxxxxx",
        "XXXX-XXXX-XXXX",
        "********",
        "placeholder",
        "example",
        "REPLACE_ME",
    ),
    *(
        "insert-key-here",
        "todo",
        "dummy",
        "my-secret-key",
        "...",
        "my_password",
        "secret",
        "[REDACTED]",
        "redacted",
    ),
)
_REFERENCES = (
    *("${API_KEY}", "$API_KEY", "${{ secrets.API_KEY }}", "$(cat /run/key)", "{{ secret }}", "{{secret}}"),
    *('os.environ["KEY"]', "os.getenv('KEY')", "process.env.KEY", "settings.SECRET_KEY", "config.get('key')"),
    *(
        "var.db_password",
        "self._password",
        "args.token",
        "ENV['KEY']",
        "getpass.getpass()",
        "%(password)s",
        "%s",
    ),
    *(
        "{password}",
        "#{ENV['KEY']}",
        "<%= ENV['KEY'] %>",
        "!Ref Key",
        "vault:secret/data/app#key",
        "@Value('k')",
    ),
    *("request.form.get('x')", "data.vault_secret.app.value", "op://vault/item/field", "$env:KEY", "%KEY%"),
)
_CODE = (
    "def check(password: str) -> bool:",
    "password: Optional[str] = None",
    "    token: string;",
    "const password: string | null = null;",
    "private String password;",
    "api_key: SecretStr = Field(...)",
    "if password == other:",
    "password = password.strip()",
    "this.token = token;",
    "token = next(tokens)",
    "self.secret = secret",
    "access_token=access_token,",
    "def login(user, password=None):",
    "password = input('Password: ')",
    "login(password=password, user=user)",
    "secret_key: bytes",
    "apiKey: undefined,",
    "password = forms.CharField(widget=forms.PasswordInput)",
    "password: varchar(255) not null",
    "let token = tokens.shift();",
    "token: expected an identifier",
    "unexpected token: '}' at line 4",
    "SyntaxError: Unexpected token < in JSON at position 0",
    "usage: tool --token TOKEN --api-key KEY --password PASSWORD",
    "docker login --password-stdin registry.example.org",
    "curl -H 'Authorization: Bearer <token>' https://example.org",
    "curl -H 'Authorization: Bearer $TOKEN' https://example.org",
    "Authorization: Bearer YOUR_ACCESS_TOKEN",
    "git clone https://user:password@example.org/repo.git",
    "postgres://user:pass@localhost/db",
    "postgres://${USER}:${PASSWORD}@db/main",
    "redis://:<password>@cache:6379",
    "mysql://{user}:{password}@{host}/{name}",
    "max_tokens: 4096, total_tokens=120",
    "next_page_token: abc123def456",
    "token_type: bearer",
    "tokens per second: 43.5",
    "passed 12 tests, secret: none",
    "secretName: tls-certificate",
    "secretKeyRef: {name: app, key: password}",
    "password_hash_rounds = 12",
    "PASSWORD_MIN_LENGTH = 12",
    "passwordResetTimeout: 3600",
    "api_key_header = 'X-Api-Key'",
    "cookie_name = 'session'",
    "the bearer of this letter is 18 years old",
    "a cookie: flour, butter and sugar",
)
_TRANSLATIONS = (
    "login.password=Password",
    "login.password.label=Enter your password",
    '"password": "Password",',
    '"password": "Enter your password",',
    '"password": "Passwort",',
    '"forgot_password": "Forgot your password?",',
    '"token": "Token",',
    '"secret": "The secret is required",',
    "  password: Mot de passe",
    "errors.password=must be at least 8 characters",
    '"api_key": "API key",',
    '"password": "must contain a digit",',
    'password: "Your password is too short."',
    '"passphrase": "Please choose a passphrase",',
)


def _examples() -> Iterator[str]:
    """Keys that vendors print in their documentation, put together from parts."""
    yield "aws_access_key_id = AK" + "IAIOSFODNN7" + "EXAMPLE"
    yield "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY"
    yield "AK" + "IAI44QH8DHB" + "EXAMPLE"
    yield "OPENAI_API_KEY=s" + "k-" + "x" * 32
    yield "export OPENAI_API_KEY='s" + "k-..." + "'"
    yield "GITHUB_TOKEN=gh" + "p_" + "x" * 36
    yield "token: gh" + "p_" + "1234567890abcdefghijklmnopqrstuvwxyz"
    yield "SLACK_TOKEN=xo" + "xb-" + "your-token-here"
    yield "xo" + "xb-" + "xxxxxxxxxxxx-xxxxxxxxxxxx-xxxxxxxxxxxxxxxx"
    head, body = ('{"alg":"HS256","typ":"JWT"}', '{"sub":"1234567890","name":"John Doe","iat":1516239022}')
    parts = [urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (head, body)]
    yield f"Authorization: Bearer {'.'.join(parts)}.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
    yield "s" + "k-ant-api03-" + "X" * 40
    yield "https://hooks." + "slack.com/services/T00000000/B00000000/" + "X" * 24
    yield "AI" + "za" + "SyXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX"


def harmless(seed: int = SEED) -> list[Line]:
    """At least 300 lines without a secret."""
    maker = _Maker(seed + 1)
    made: list[Line] = []
    styles = ("{} = {}", "{}: {}", '"{}": "{}"', "{}={}", "export {}='{}'")
    for number, value in enumerate(_PLACEHOLDERS):
        for turn in range(4):
            name = _NAMES[(number + turn * 3) % len(_NAMES)]
            made.append(Line("placeholder", styles[(number + turn) % len(styles)].format(name, value)))
    for number, value in enumerate(_REFERENCES):
        for turn in range(3):
            name = _NAMES[(number + turn * 3) % len(_NAMES)]
            style = ("{} = {}", "{}: {}", "{}={}")[(number + turn) % 3]
            made.append(Line("reference", style.format(name, value)))
    made += [Line("code", line) for line in _CODE]
    made += [Line("translation", line) for line in _TRANSLATIONS]
    made += [Line("example", line) for line in _examples()]
    for _ in range(6):
        made += [
            Line("git", f"commit {maker.of(_HEX, 40)}"),
            Line("git", f"HEAD is now at {maker.of(_HEX, 7)} Mend the token: parser"),
            Line("digest", f'hash = "sha256:{maker.of(_HEX, 64)}"'),
            Line("digest", f"  integrity sha512-{maker.base64(64)}"),
            Line("digest", f"--hash=sha256:{maker.of(_HEX, 64)} \\"),
            Line("id", f"request_id: {maker.uuid()}"),
            Line("id", f"trace {maker.of(_HEX, 32)} span {maker.of(_HEX, 16)}"),
            Line("id", f'etag: W/"{maker.of(_HEX, 20)}"'),
            Line("image", f"src='data:image/png;base64,iVBORw0KGgo{maker.base64(90)}'"),
            Line("path", f"/usr/lib/python3/{maker.of(_LOWER, 12)}/secrets/tokens.py"),
            Line("name", f"com.example.auth.TokenProviderFactory${maker.of(string.ascii_letters, 12)}"),
            Line("id", f"arn:aws:iam::{maker.of(string.digits, 12)}:role/deploy-{maker.of(_LOWER, 8)}"),
        ]
    return made


def measure(redactor: Redactor | None = None) -> Score:
    """Look at both sets."""
    redact = (redactor or Redactor()).text
    hidden, plain = secrets(), harmless()
    missed = Counter(line.kind for line in hidden if line.secret in redact(line.text))
    alarmed = Counter(line.kind for line in plain if redact(line.text) != line.text)
    return Score(
        len(hidden), len(hidden) - missed.total(), len(plain), alarmed.total(), dict(missed), dict(alarmed)
    )


def main(arguments: list[str]) -> int:
    """The exit code."""
    score = measure()
    if "--json" in arguments:
        print(json.dumps(score._asdict()))
        return 0
    print(f"secrets found:  {score.found} of {score.secrets} ({len(_KINDS)} kinds)")
    print(f"false alarms:   {score.alarms} of {score.harmless}")
    for what, counted in (("missed", score.missed), ("false alarms", score.alarmed)):
        print(
            f"{what} by kind: " + (", ".join(f"{kind} {n}" for kind, n in sorted(counted.items())) or "none")
        )
    if "--list" in arguments:
        redact = Redactor().text
        for line in harmless():
            if redact(line.text) != line.text:
                print(f"  {line.kind}: {line.text}  ->  {redact(line.text)}", file=sys.stdout)
        for line in secrets():
            if line.secret in redact(line.text):
                print(f"  missed {line.kind}: {line.text[:100]}")
    return 0
