"""Everyday work with programs: Python, C, Node, servers on the machine itself, and the shell."""

from __future__ import annotations

from tests.attacks.ordinary import Ordinary

_TEST = {
    "adder.py": "def add(a, b):\n    return a + b\n",
    "test_adder.py": "from adder import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
}

WITH_PROGRAMS = [
    # Without what else is installed here beside it, which takes longer to load than all the rest.
    Ordinary(
        name="pytest with its cache and temporary folders",
        files=_TEST | {"test_it.py": "def test_it(tmp_path):\n    (tmp_path / 'x').write_text('y')\n"},
        text='PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 "$PYTHON" -m pytest -q && ls -d .pytest_cache',
        says=("2 passed", ".pytest_cache"),
    ),
    # Python
    Ordinary(
        name="pip list",
        text='"$PYTHON" -m pip list --format=freeze --disable-pip-version-check',
        says=("pytest",),
    ),
    Ordinary(
        name="a virtual environment",
        text="\"$PYTHON\" -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'",
        says=("/v",),
    ),
    Ordinary(
        name="a Python of pyenv",
        text="""
PYENV_ROOT=~/.pyenv
"$PYENV_ROOT/shims/python-of-pyenv" -c "import sys, json
print(sys.executable)"
""",
        says=("/.pyenv/versions/3.99/",),
    ),
    Ordinary(
        name="processes of Python",
        files={
            "p.py": """
import multiprocessing


def square(n):
    return n * n


if __name__ == '__main__':
    with multiprocessing.Pool(4) as pool:
        print(sum(pool.map(square, range(10))))
    q = multiprocessing.Queue()
    q.put('queued')
    print(q.get())
"""
        },
        text='"$PYTHON" p.py',
        says=("285", "queued"),
    ),
    Ordinary(
        name="threads and executors",
        text="""
"$PYTHON" -c "from concurrent.futures import *
print(sum(ThreadPoolExecutor(16).map(len, ['ab'] * 50)))"
""",
        says=("100",),
    ),
    Ordinary(
        name="asyncio and its subprocesses",
        files={
            "p.py": """
import asyncio


async def main():
    p = await asyncio.create_subprocess_exec('echo', 'from a child', stdout=-1)
    print((await p.communicate())[0].decode())


asyncio.run(main())
"""
        },
        text='"$PYTHON" p.py',
        says=("from a child",),
    ),
    Ordinary(
        name="temporary files",
        text="""
"$PYTHON" -c "import tempfile
f = tempfile.NamedTemporaryFile()
f.write(b'x')
d = tempfile.mkdtemp()
print('made', d)"
t=$(mktemp) &&
    echo kept > $t &&
    cat $t
""",
        says=("made", "kept"),
    ),
    Ordinary(
        name="a database",
        text="""
"$PYTHON" -c "import sqlite3
d = sqlite3.connect('d.db')
d.execute('pragma journal_mode=wal')
d.execute('create table t (a)')
d.execute('insert into t values (42)')
d.commit()
print(d.execute('select * from t').fetchall())"
""",
        says=("(42,)",),
    ),
    Ordinary(
        name="type checking",
        files={"m.py": "def f(x: int) -> int:\n    return x\n\n\nf('no')\n"},
        text="""
"$PYTHON" -m ruff check --no-cache m.py
"$PYTHON" -m ruff format --diff m.py
"$PYTHON" -m compileall -q . &&
    ls __pycache__
""",
        says=("All checks passed", "m.cpython"),
    ),
    # Building
    Ordinary(
        name="make",
        needs="make",
        files={"Makefile": "all: out\nout: in\n\tcat in > out\n\tdate >> /dev/null\n", "in": "built\n"},
        text="make -j4",
        makes={"out": "built"},
    ),
    Ordinary(
        name="compile C",
        needs="cc",
        files={"a.c": '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n'},
        text="cc -O1 -g -Wall -o a a.c && ./a",
        says=("compiled",),
    ),
    Ordinary(
        name="a library of C",
        needs="cc",
        files={
            "l.c": "int two(void) { return 2; }\n",
            "a.c": "int two(void);\nint main(void) { return two() - 2; }\n",
        },
        text="cc -c l.c && ar rcs libl.a l.o && cc -o a a.c -L. -ll && ./a && nm libl.a",
        says=("T two",),
    ),
    Ordinary(
        name="a debugger",
        needs="strace",
        text="strace -f -o trace sh -c 'echo traced' && grep -c execve trace",
        says=("traced",),
    ),
    Ordinary(
        name="npm test",
        needs="npm",
        files={
            "package.json": '{"name": "p", "version": "1.0.0", "scripts": {"test": "node test.js"}}\n',
            "test.js": """
require('assert').strictEqual(1 + 1, 2)
require('fs').writeFileSync('out', 'tested')
console.log('tested')
""",
        },
        text="npm test --silent --no-update-notifier",
        makes={"out": "tested"},
    ),
    Ordinary(
        name="node",
        needs="node",
        text="""
node -e "const w = new (require('worker_threads').Worker)('console.log(6 * 7)', {eval: true})"
""",
        says=("42",),
    ),
    Ordinary(
        name="a program of perl",
        needs="perl",
        text='perl -MPOSIX -e \'print strftime("%Y", gmtime(0)), "\\n"\'',
        says=("1970",),
    ),
    # The network of its own
    Ordinary(
        name="a server on this machine",
        text="""
echo served > page
"$PYTHON" -m http.server 8123 --bind 127.0.0.1 > /dev/null 2>&1 & server=$!
for i in $(seq 50)
do "$PYTHON" -c "import urllib.request
print(urllib.request.urlopen('http://127.0.0.1:8123/page').read().decode())" 2> /dev/null &&
    break
sleep 0.05
done
kill $server
""",
        says=("served",),
    ),
    Ordinary(
        name="a server by the name localhost",
        files={
            "s.py": """
import socket, threading
s = socket.create_server(('localhost', 0))
threading.Thread(target=lambda: s.accept()[0].sendall(b'hello'), daemon=True).start()
print(socket.create_connection(('localhost', s.getsockname()[1])).recv(9))
"""
        },
        text='"$PYTHON" s.py',
        says=("hello",),
    ),
    Ordinary(
        name="a unix socket of its own",
        files={
            "s.py": """
import socket, threading
s = socket.socket(socket.AF_UNIX)
s.bind('here')
s.listen()
threading.Thread(target=lambda: s.accept()[0].sendall(b'hello'), daemon=True).start()
c = socket.socket(socket.AF_UNIX)
c.connect('here')
print(c.recv(9))
"""
        },
        text='"$PYTHON" s.py',
        says=("hello",),
    ),
    # The shell
    Ordinary(
        name="archives",
        files={"a/b": "kept\n"},
        text="tar -czf a.tgz a && rm -r a && tar -xzf a.tgz && cat a/b; gzip -k a/b; zcat a/b.gz",
        says=("kept",),
    ),
    Ordinary(
        name="zip",
        needs="zip",
        files={"a": "zipped\n"},
        text="zip -q a.zip a && rm a && unzip -q a.zip && cat a",
        says=("zipped",),
    ),
    Ordinary(
        name="search and replace",
        files={"a/x.txt": "old\n", "b/y.txt": "old\n"},
        text="""
find . -name '*.txt' -print0 | xargs -0 grep -l old | xargs sed -i s/old/new/
awk '{ n++ } END { print n " lines" }' */*.txt
""",
        says=("2 lines",),
        makes={"a/x.txt": "new"},
    ),
    Ordinary(
        name="diff and patch",
        needs="patch",
        files={"a": "one\n", "b": "two\n"},
        text="diff -u a b > p; patch a p",
        makes={"a": "two"},
    ),
    Ordinary(
        name="pipelines and background jobs",
        text="""
(sleep 0.1
echo first > one) & (echo second > two) & wait
cat one two | sort | tee all | wc -l
""",
        says=("2",),
        makes={"all": "first"},
    ),
    Ordinary(
        name="process substitution",
        text="diff <(seq 3) <(seq 1 3) && cat <(echo same) && echo $((1 + 1)) > >(tee log) ; wait",
        says=("same",),
    ),
    Ordinary(
        name="modes and links",
        text="""
echo x > a
chmod 755 a
chmod u-w,g+w a
ln -s a b
ln a c
mkdir -p d/e
mv a d/e
touch -d 2001-01-01 c
stat -c %a c
cat d/e/a
""",
        says=("575", "x"),
    ),
    Ordinary(
        name="locks and time limits",
        text="flock lock -c 'echo locked'; timeout 5 echo in time; timeout 0.1 sleep 5 || echo too late",
        says=("locked", "in time", "too late"),
    ),
    Ordinary(
        name="who and where",
        text="""
id -u
whoami
pwd
nproc
date
locale > /dev/null
uname -s
df . > /dev/null &&
    cd ~ &&
    touch .cache-of-mine &&
    echo "home works"
""",
        says=("Linux", "home works"),
    ),
    Ordinary(
        name="programs of the home",
        text='test -x "$(command -v python3)" && python3 -c "print(\'found\')"',
        says=("found",),
    ),
    Ordinary(
        name="devices that programs use",
        text="""
head -c 4 /dev/urandom | wc -c
echo x > /dev/null
: < /dev/zero
echo to-error > /dev/stderr
echo out > /dev/stdout
cat < /dev/fd/0
""",
        says=("4", "out"),
    ),
    Ordinary(
        name="processes seen from inside",
        text="""
sleep 5 & kill %1
wait
ls /proc/self/fd > /dev/null &&
    grep -q Name /proc/self/status &&
    echo seen
""",
        says=("seen",),
    ),
    Ordinary(
        name="a home of its own",
        home="/srv/somebody",
        text="cd ~ && pwd && mkdir -p .cache && echo kept > .cache/x && cat .cache/x",
        says=("/srv/somebody", "kept"),
    ),
    Ordinary(
        name="a folder for what runs",
        text="mkdir -p /run/app && echo 42 > /run/app/pid && cat /run/app/pid",
        says=("42",),
    ),
    Ordinary(
        name="shared memory of Python",
        text="""
"$PYTHON" -c "from multiprocessing import shared_memory as s
m = s.SharedMemory(create=True, size=4096)
m.buf[0] = 7
print('shared', m.buf[0])
m.close()
m.unlink()"
""",
        says=("shared 7",),
    ),
]
