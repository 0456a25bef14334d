"""A tool: a schema that anyone may read, and the function that only the runtime calls.

`@tool` makes one from a typed function, `Tool.from_schema` from a schema written by hand.

Keep true:
1. A declaration that contradicts itself fails when it is made. A schema that does not compile fails then too
   if it was written by hand; one that was read from types fails, at the latest, when the tool is registered.
2. `validate(parameters) is None` means that `bind` and the keyword call accept them: what verify passes,
   execution does not refuse.
3. No caller's JSON reaches the context parameter.
4. A `Tool` is still the function it was made from: calling it calls that function, async stays awaitable.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, overload

import msgspec

from placet.errors import ToolDeclarationError, ToolError, UsageError
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import Mark, Reversibility, Risk, ToolSchema
from placet.tools.declaration import Calling, Rate, calling_by_schema, check_declaration, own_copy, read_rate
from placet.tools.json_schema import Check, compile_check
from placet.tools.signature import (
    Bind,
    describe_type,
    find_deps_type,
    is_async_function,
    read_signature,
    tool_name,
)
from placet.truncation import truncate_repr

if TYPE_CHECKING:
    # Defaults let `Tool` stand for `Tool[..., Any]`. Only checkers need them, and 3.11's typing lacks them.
    from typing_extensions import ParamSpec, TypeVar

    from placet.ir.call_facts import Confinement, Preview, Recovery

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")


class Tool(Generic[P, R]):
    """A tool: its schema and its function. Made with `@tool` or `Tool.from_schema`.

    >>> @tool(risk="read_only")
    ... def add(a: int, b: int) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> add(1, 2), add.name, add.schema.description
    (3, 'add', 'Add two numbers.')
    >>> add.validate({"a": "one"})
    'parameter \\'b\\' is required; parameter \\'a\\': "one" is not of type "integer"'
    """

    __slots__ = (
        "_bind_can_refuse",
        "_compiled",
        "_reserved",
        "bind",
        "cheap",
        "confined_to",
        "confinement",
        "context_parameter",
        "deps_type",
        "explain",
        "fn",
        "has_exit_code",
        "is_async",
        "is_direct",
        "max_retries",
        "may_label",
        "origin",
        "preview",
        "recovery",
        "schema",
        "takes_object",
        "timeout_ms",
        "trusted",
        "unlogged",
        "validate",
        "validate_returns",
    )

    def __init__(
        self,
        *,
        schema: ToolSchema,
        fn: Callable[P, R] | None,
        cheap: bool = False,
        timeout_ms: int | None = None,
        max_retries: int | None = None,
        context_parameter: str | None = None,
        reserved: str | None = None,
        bind: Bind | None = None,
        bind_can_refuse: bool = False,
        takes_object: bool = False,
        trusted: bool = False,
    ) -> None:
        is_async = fn is not None and is_async_function(fn)
        check_declaration(
            schema, is_async=is_async, cheap=cheap, timeout_ms=timeout_ms, max_retries=max_retries
        )
        self.schema: ToolSchema = own_copy(schema)
        """The tool as data."""
        self.fn = fn
        """The function; `None` if only the schema is known."""
        self.is_async: bool = is_async
        """Whether the function is a coroutine function."""
        self.cheap = cheap
        """Called inline instead of in a worker thread. Only for functions that return within microseconds."""
        self.timeout_ms = timeout_ms
        """Time limit of each attempt in milliseconds."""
        self.max_retries = max_retries
        """Upper limit on further attempts, whatever the plan asks for."""
        self.is_direct = _is_direct(self)
        """An attempt needs nothing around the bare call: no thread, no time limit, no turn to wait for."""
        self.context_parameter = context_parameter
        """Pass the ToolContext under this keyword; None if the function does not want one."""
        self.deps_type: Any = (
            None if fn is None or context_parameter is None else find_deps_type(fn, context_parameter)
        )
        """The type in `ToolContext[Deps]`; `None` if the function asks for no dependencies."""
        self.bind = bind
        """From validated JSON to keyword arguments; None when the JSON is passed as it is."""
        self.takes_object = takes_object
        """The function takes the whole parameters object as its one positional argument."""
        self.confined_to: str | None = None
        """The workspace of a tool that comes with Placet and changes nothing outside of it, and of a program
        that is sure to run in a sandbox. All others have all rights of this process."""
        self.confinement: Callable[[], Awaitable[Confinement]] | None = None
        """Establishes what is enforced around a call. None for a function that runs with all rights of this
        process. Set by what makes tools that come with Placet, programs and tools of servers."""
        self.origin: str = ""
        """Where it comes from, in words, where that is no function of a caller: a program, or a server."""
        self.preview: Callable[[Mapping[str, JsonValue], Callable[[str], str]], Preview] | None = None
        """What a call would change in files as they are now. Given the parameters, and what takes secrets out
        of a text. Only file tools that come with Placet have one: all they change is in `confined_to`."""
        self.explain: Callable[[Mapping[str, JsonValue], str | None], str] | None = None
        """What a call is about, for whoever approves it, where the parameters alone do not say it. Given the
        parameters and the tenant; may wait for a disk."""
        self.may_label: bool = False
        """Whether it may label its output itself, with `ToolContext.label_output`: which labels there will be
        is known only when it has run, and `verify` says so."""
        self.recovery: Callable[[], Recovery | None] | None = None
        """How a person can undo the next call, for a tool that knows; None leaves that to others."""
        self.trusted = trusted
        """Marked by the user as safe to run outside the sandbox."""
        self.unlogged: frozenset[str] = frozenset()
        """Parameters whose values stay out of the log. If there are any, so does the output."""
        self._reserved = reserved
        """A name that no caller may use although the schema would let it: the context's keyword."""
        self._bind_can_refuse = bind_can_refuse
        self._compiled = False
        self.validate: Check | None = self._validate_first
        """Check of the parameters; `None` if any object is valid."""
        self.has_exit_code: bool = schema.has_exit_code
        """Its output has the exit code of a command, by its own declaration."""
        self.validate_returns: Check | None = self._validate_returns_first
        """None when any output is fine, else a check of the output (as JSON)."""
        if not schema.returns:
            self.validate_returns = None
        if not schema.parameters and reserved is None and not bind_can_refuse:
            self.validate = None

    @classmethod
    def from_schema(
        cls,
        schema: ToolSchema,
        fn: Callable[P, R] | None,
        *,
        cheap: bool = False,
        timeout_ms: int | None = None,
        trusted: bool = False,
    ) -> Tool[P, R]:
        """Create a tool with a hand-written schema.

        The function receives the parameters as keyword arguments, with values as they are in the JSON. A
        function whose only parameter (not counting a `ToolContext`) is none of the schema's `properties`
        receives the whole object as a dict.

        Args:
            schema: The tool as data.
            fn: The function. `None`: the schema is known, and the tool cannot be called.
            cheap: Call a plain function inline instead of in a worker thread.
            timeout_ms: Time limit of each attempt in milliseconds.
            trusted: Offer it under isolation `"process"` although it runs outside the sandbox.

        Raises:
            ToolDeclarationError: the schema does not compile, or allows parameters that the function cannot
                take.
        """
        if isinstance(fn, Tool):
            fn = fn.fn
        calling = Calling() if fn is None else calling_by_schema(fn, schema)
        made = cls(
            schema=schema,
            fn=fn,
            cheap=cheap,
            timeout_ms=timeout_ms,
            context_parameter=calling.context_parameter,
            reserved=calling.reserved,
            bind=calling.bind,
            takes_object=calling.takes_object,
            trusted=trusted,
        )
        made.compile()
        return made

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self.schema.name

    @property
    def __name__(self) -> str:
        return self.schema.name

    @property
    def __wrapped__(self) -> Callable[P, R]:
        # inspect.signature and help() look here.
        if self.fn is None:
            raise AttributeError("__wrapped__")
        return self.fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly, without any gate: for tests, and for code that is not an agent.

        Args:
            args: Positional arguments of the function.
            kwargs: Keyword arguments of the function.

        Raises:
            UsageError: only the schema is known.
        """
        if self.fn is None:
            raise UsageError(f"Tool '{self.name}' has a schema but no function. Register one to call it.")
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}: {self.schema.risk}{', async' if self.is_async else ''}>"

    def redeclared(self, **changes: Any) -> Tool[P, R]:
        """Return a copy that declares something else. This one stays as it is: other runtimes may have it.

        Args:
            changes: Fields of the `ToolSchema`, such as `rate_limit`.

        Raises:
            ToolDeclarationError: the copy would contradict itself.
        """
        self.compile()
        made = copy.copy(self)
        made.schema = msgspec.structs.replace(self.schema, **changes)
        check_declaration(
            made.schema,
            is_async=made.is_async,
            cheap=made.cheap,
            timeout_ms=made.timeout_ms,
            max_retries=made.max_retries,
        )
        made.is_direct = _is_direct(made)
        return made

    def compile(self) -> None:
        """Compile the schemas now instead of at the first check. Registering a tool does this.

        Raises:
            ToolDeclarationError: a schema does not compile; the message says where.
        """
        if self._compiled:
            return
        owner = f"Tool '{self.name}'"
        returns = compile_check(self.schema.returns or {}, owner=owner, root="output")
        by_schema = compile_check(self.schema.parameters, owner=owner, root="parameters")
        self.validate = _with_reserved_name(by_schema, self._reserved)
        if self._bind_can_refuse and self.bind is not None:
            self.validate = _with_trial(self.validate, self.bind)
        self.validate_returns = returns
        self._compiled = True

    def _validate_first(self, value: JsonValue) -> str | None:
        self.compile()
        return None if self.validate is None else self.validate(value)

    def _validate_returns_first(self, value: JsonValue) -> str | None:
        self.compile()
        return None if self.validate_returns is None else self.validate_returns(value)


@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    risk: Risk = "destructive",
    reversibility: Reversibility | None = None,
    idempotent: bool = False,
    timeout_ms: int | None = None,
    max_retries: int | None = None,
    rate_limit: Rate | None = None,
    cache_ttl_secs: float | None = None,
    cheap: bool = False,
    labels: Iterable[str] = (),
    marks: Iterable[Mark] = (),
    field_marks: Mapping[str, Sequence[Mark]] | None = None,
    returns: Any = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    risk: Risk = "destructive",
    reversibility: Reversibility | None = None,
    idempotent: bool = False,
    timeout_ms: int | None = None,
    max_retries: int | None = None,
    rate_limit: Rate | None = None,
    cache_ttl_secs: float | None = None,
    cheap: bool = False,
    labels: Iterable[str] = (),
    marks: Iterable[Mark] = (),
    field_marks: Mapping[str, Sequence[Mark]] | None = None,
    returns: Any = None,
) -> Any:
    """Make a tool of a typed function, as a bare decorator (`@tool`) or with options.

    Declare the risk: a tool without `risk` is treated as destructive and irreversible.

    Args:
        fn: The function; a parameter annotated with `ToolContext` receives the context of the call, and one
            annotated with `ToolContext[Deps]` also the caller's own objects.
        name: Name by which plans call it. `None`: the name of the function.
        description: Description for models and people. `None`: the first paragraph of the docstring.
        risk: What a call can do.
        reversibility: Whether an effect can be undone; see `ToolSchema`.
        idempotent: Safe to repeat.
        timeout_ms: Time limit of each attempt in milliseconds; the shorter of this and the action's own
            holds.
        max_retries: Upper limit on further attempts, whatever the plan asks for.
        rate_limit: How often it may start, such as `(10, 60.0)` for ten times a minute; callers wait.
        cache_ttl_secs: How long a result may be reused, in seconds.
        cheap: Call a plain function inline instead of in a worker thread. Only for functions that return
            within microseconds.
        labels: Labels of your own; rules can name them.
        marks: Labels on the output: `"untrusted"`, `"secret"`.
        field_marks: Labels on fields of the output, by path, such as `{"mails[].body": ["untrusted"]}`.
        returns: JSON Schema or type that outputs are checked against; the annotation of the function is not
            used for that.

    Raises:
        ToolDeclarationError: the function or the options cannot make a tool; the message says what to change.
    """

    def declare(target: Callable[..., Any]) -> Tool:
        if isinstance(target, Tool):
            raise ToolDeclarationError(f"'{target.name}' is a tool already. Apply @tool once, outermost.")
        if not callable(target):
            raise ToolDeclarationError(
                f"@tool got {truncate_repr(target, 80)}, which is no function. Write options by keyword."
            )
        read = read_signature(target)
        chosen = tool_name(target) if name is None else name
        owner = f"Tool '{chosen}'"
        is_open = read.parameters["additionalProperties"] is not False
        made: Tool = Tool(
            schema=ToolSchema(
                name=chosen,
                description=read.description if description is None else description,
                parameters=read.parameters,
                returns=_schema_of_returns(returns, owner),
                idempotent=idempotent,
                cache_ttl_secs=cache_ttl_secs,
                rate_limit=read_rate(rate_limit, owner),
                risk=risk,
                reversibility=reversibility,
                labels=(labels,) if isinstance(labels, str) else tuple(labels),
                marks=tuple(marks),
                field_marks={} if field_marks is None else field_marks,
            ),
            fn=target,
            cheap=cheap,
            timeout_ms=timeout_ms,
            max_retries=max_retries,
            context_parameter=read.context_parameter,
            reserved=read.context_parameter if is_open else None,
            bind=read.bind,
            bind_can_refuse=read.bind_can_refuse,
        )
        if isinstance(returns, dict):
            made.compile()
        return made

    return declare if fn is None else declare(fn)


def _is_direct(made: Tool) -> bool:
    return (made.is_async or made.cheap) and made.timeout_ms is None and made.schema.rate_limit is None


def _schema_of_returns(returns: Any, owner: str) -> dict[str, JsonValue] | None:
    return returns if returns is None or isinstance(returns, dict) else describe_type(returns, owner=owner)


def _with_reserved_name(check: Check | None, reserved: str | None) -> Check | None:
    """Also refuse a caller who fills in the context parameter."""
    if reserved is None:
        return check

    def checked(parameters: JsonValue) -> str | None:
        if reserved in parameters:
            return f"parameter '{reserved}' is unknown"
        return None if check is None else check(parameters)

    return checked


def _with_trial(check: Check | None, bind: Bind) -> Check:
    """Also refuse what only the conversion knows to be wrong: a date that is none, a validator's own rule."""

    def checked(parameters: JsonValue) -> str | None:
        problem = None if check is None else check(parameters)
        if problem is None:
            try:
                bind(parameters)
            except ToolError as error:
                return str(error)
        return problem

    return checked
