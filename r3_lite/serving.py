"""The frame around the tools: the server and its life, the threads that tools run on, how errors look to a client."""

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar, get_type_hints

from anyio import CapacityLimiter, from_thread, to_thread
from anyio.lowlevel import RunVar
from fastmcp import Context, FastMCP
from fastmcp.dependencies import CurrentContext
from fastmcp.exceptions import NotFoundError, ValidationError
from fastmcp.server.lifespan import lifespan
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp.types import ToolAnnotations
from pydantic import BaseModel
from pydantic import ValidationError as PydanticValidationError

from r3_lite import __version__
from r3_lite.engine import Engine
from r3_lite.errors import InvalidParameters, R3Error, RateLimitExceeded, StorageError
from r3_lite.limits import MAX_USER_ID
from r3_lite.rates import RateLimits, limits_of
from r3_lite.settings import load_settings
from r3_lite.wire import UNREADABLE, flat_schema, light_session_state

INSTRUCTIONS = """\
r3-lite is your long-term memory; it stays on the user's machine.
Before you answer, search_memory for what the user may have told you earlier: preferences, people, projects, \
decisions, dates. Ask in a full sentence.
When the user states something worth keeping, add_memory at once: one fact per memory, whole sentences, names and \
absolute dates instead of "he" and "tomorrow". If it corrects a memory, update_memory that one.
Forget on request with delete_memory. Ids start with mem_."""

# Threads that run tools; each holds one connection to the file. Those that may write wait for each other and for
# other processes: they have threads of their own, so that no search, and not the transport, waits with them.
READERS = WRITERS = 8
# Threads of calls that last: an import may wait for the network, or work on a large file, for minutes.
SLOW = 4
# After this long without a call the model is loaded anyway, so that work left by an earlier process gets done.
IDLE_START_SECONDS = 0.5

logger = logging.getLogger(__name__)
R = TypeVar("R", bound=BaseModel)
_readers: RunVar[CapacityLimiter] = RunVar("r3_lite_readers")
_writers: RunVar[CapacityLimiter] = RunVar("r3_lite_writers")
_slow: RunVar[CapacityLimiter] = RunVar("r3_lite_slow")


@lifespan
async def _lifespan(_server: FastMCP) -> AsyncIterator[dict[str, Any]]:
    settings = load_settings()
    engine = Engine(settings)
    logger.info("%s serves %s", __version__, engine.database.path or "memories that are kept in memory only")
    _readers.set(CapacityLimiter(READERS))
    _writers.set(CapacityLimiter(WRITERS))
    _slow.set(CapacityLimiter(SLOW))
    starter = asyncio.get_running_loop().call_later(IDLE_START_SECONDS, engine.start)
    try:
        yield {"engine": engine, "rates": RateLimits(limits_of(settings.rate_limits))}
    finally:
        starter.cancel()
        await to_thread.run_sync(engine.close)


async def current_engine(context: Context = CurrentContext()) -> Engine:
    engine: Engine = context.lifespan_context["engine"]
    return engine


def cancelled() -> bool:
    """Tell, on the thread of a tool, whether its client has taken the request back."""
    try:
        from_thread.check_cancelled()
    except asyncio.CancelledError:
        return True
    return False


async def current_load() -> dict[str, int]:
    """Return how many tool calls run at the moment and how many wait for a thread; the asking one is not among them."""
    limiters = _readers.get(), _writers.get(), _slow.get()
    return {
        "running": sum(limiter.borrowed_tokens for limiter in limiters),
        "waiting": sum(limiter.statistics().tasks_waiting for limiter in limiters),
    }


class _Gate(Middleware):
    """Refuses calls beyond the limits before they take a thread, and answers wrong arguments with one line.

    It names what is expected, never the value that was sent. One middleware, since each costs every call its time.
    """

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> ToolResult:
        sent = context.message.arguments or {}
        if UNREADABLE in sent:
            return failure(InvalidParameters(f"The call cannot be read: {sent[UNREADABLE]}."))
        try:
            _check_rate(context)
            result: ToolResult = await call_next(context)
            return result
        except RateLimitExceeded as error:
            return failure(error)
        except NotFoundError:
            return failure(InvalidParameters("There is no tool of this name. Use one that tools/list names."))
        except (ValidationError, PydanticValidationError) as error:
            cause = error if isinstance(error, PydanticValidationError) else error.__cause__
            if not isinstance(cause, PydanticValidationError):
                raise
            return failure(InvalidParameters(await _explain(context, cause)))


def _check_rate(context: MiddlewareContext[Any]) -> None:
    """Count a call. Raises RateLimitExceeded for a user who has made too many within a minute."""
    frame = context.fastmcp_context
    if frame is not None:
        engine, rates = frame.lifespan_context["engine"], frame.lifespan_context["rates"]
        user_id = (context.message.arguments or {}).get("user_id")
        user = engine.settings.user_id if user_id is None else str(user_id)[: MAX_USER_ID + 1]
        rates.spend(context.message.name, user, networked=frame.transport in ("sse", "streamable-http"))


mcp = FastMCP(
    "r3-lite",
    instructions=INSTRUCTIONS,
    version=__version__,
    lifespan=_lifespan,
    middleware=[_Gate()],
    mask_error_details=True,
)
light_session_state(mcp)


def failure(error: R3Error) -> ToolResult:
    """Return a tool's error answer: text "CODE: message", structured {error, code, details}."""
    return ToolResult(
        content=f"{error.code}: {error.message}",
        structured_content={"error": error.message, "code": error.code, "details": error.details},
        is_error=True,
    )


def tool(
    render_text: Callable[[R], str],
    *,
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    open_world: bool = False,
    slow: bool = False,
    lasting: Callable[[R, Engine], bool] | None = None,
) -> Callable[[Callable[..., R]], Callable[..., Awaitable[ToolResult]]]:
    """Register a function as a tool: its model becomes structured content, `render_text` the text beside it.

    The function runs on a worker thread and may block, for minutes where it is `slow`: other calls do not wait for it.
    Fields are named by their aliases, in schema and content.

    With `lasting` finished answers are kept in the engine's cache, those of which it says that only a write for their
    user can change them, and `prefer_cache` is an argument of the tool. `source` in an answer tells where it is from.
    """
    hints = ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=destructive,
        idempotent_hint=idempotent,
        open_world_hint=open_world,
    )

    def register(function: Callable[..., R]) -> Callable[..., Awaitable[ToolResult]]:
        def make(**arguments: Any) -> tuple[R, str, dict[str, Any]]:
            result = function(**arguments)
            return result, render_text(result), result.model_dump(by_alias=True, exclude_none=True)

        def kept_or_made(engine: Engine, keep: Callable[[R, Engine], bool], **arguments: Any) -> ToolResult:
            began = time.perf_counter()
            user = engine.user(arguments["user_id"])
            # Read before the answer is made: a write in between leaves one that is never served.
            generation = engine.generation(user)
            asked = [item for item in arguments.items() if item[0] not in ("user_id", "prefer_cache")]
            key = function.__name__, user, repr(asked)
            kept = engine.answers.get(key, generation) if arguments["prefer_cache"] else None
            if kept is not None:
                text, data = kept
                if "cache_stats" in data:
                    data = {**data, "cache_stats": engine.cache_stats()}
            else:
                result, text, data = make(engine=engine, **arguments)
                if keep(result, engine):
                    engine.answers.put(key, generation, (text, {**data, "source": "cache"}))
            engine.answers.took(time.perf_counter() - began)
            return ToolResult(content=text, structured_content=data)

        def run(**arguments: Any) -> ToolResult:
            try:
                if lasting is not None:
                    return kept_or_made(keep=lasting, **arguments)
                _, text, data = make(**arguments)
                return ToolResult(content=text, structured_content=data)
            except R3Error as error:
                return failure(error)
            except Exception as error:  # noqa: BLE001 - a traceback would carry the user's texts into the client's log
                logger.error("%s failed: %s", function.__name__, type(error).__name__)
                return failure(StorageError(f"An unexpected fault ({type(error).__name__}). Run health_check."))

        @functools.wraps(function)
        async def answer(**arguments: Any) -> ToolResult:
            threads, began = _slow if slow else _readers if read_only else _writers, time.perf_counter()
            result = await to_thread.run_sync(functools.partial(run, **arguments), limiter=threads.get())
            logger.debug("%s took %.1f ms", function.__name__, (time.perf_counter() - began) * 1000)
            return result

        mcp.tool(
            annotations=hints,
            description=" ".join((function.__doc__ or "").split()),
            output_schema=flat_schema(get_type_hints(function)["return"]),
        )(answer)
        return answer

    return register


async def _explain(context: MiddlewareContext[Any], error: PydanticValidationError) -> str:
    problems = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False)[:3]:
        where = ".".join(str(part) for part in problem["loc"][:3])[:60]
        if problem["type"] == "unexpected_keyword_argument":
            problems.append(f"unknown argument; allowed are {await _allowed(context)}")
        elif problem["type"] in {"missing_argument", "missing_keyword_only_argument", "missing"}:
            problems.append(f"{where} is missing")
        else:
            problems.append(f"{where}: {problem['msg'].removeprefix('Value error, ')}")
    return "; ".join(dict.fromkeys(problems))[:270] + "."


async def _allowed(context: MiddlewareContext[Any]) -> str:
    found = await mcp.get_tool(context.message.name)
    return ", ".join(found.parameters["properties"]) if found else "none"
