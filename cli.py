"""The `specplan` command: names of the commands, exit codes, version. What each does is in commands/."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from specplan import __version__
from specplan.planner.messages import InputError, SpecplanError, nearest

gc.set_threshold(100_000, 50, 50)       # most commands end within half a second: looking for cycles took a tenth of it,
atexit.register(gc.freeze)              # and once more at the end, where all memory goes back anyway
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # looking for them reads the metadata of every package here
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")      # numpy would start one per core, and no matrix here is large

COMMANDS = {    # name -> module of commands/ that holds it; imported when the command runs or help is printed
    "recommend": "plan",
    "explain": "plan",
    "init": "plan",
    "schema": "plan",
    "acceptance": "acceptance",
    "validate": "validate",
    "sweep": "sweep",
    "fit": "fit",
    "measure": "measure",
    "decide": "measure",
    "check": "engines",
    "compare": "engines",
    "pareto": "show",
    "plot": "show",
    "report": "show",
    "op": "op",
    "profiles": "catalog",
    "models": "catalog",
}


class Commands(TyperGroup):
    """Commands by name, each loaded when asked for; errors end as a sentence on stderr and an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of `COMMANDS`."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the module that holds a command."""
        if cmd_name not in COMMANDS:
            raise InputError(f"no command '{cmd_name}'{nearest(cmd_name, COMMANDS)}")
        module = importlib.import_module(f"specplan.commands.{COMMANDS[cmd_name]}")
        group: Any = typer.main.get_group(module.app)
        return group.get_command(ctx, cmd_name)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; 1, 2 and 3 are specplan's own codes (messages.py), above 128 a signal's as in a shell."""
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:      # None: closed by the caller (>&-)
                sys.stdout.flush()
        except SpecplanError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except BrokenPipeError:     # the reader (head, less) has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        except OSError as error:    # a full disk, a device that went away
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            typer.echo(f"{error.filename or 'output'}: {error.strerror or error}", err=True)
            raise typer.Exit(2) from None
        return result


app = typer.Typer(
    cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Which speculative-decoding mechanism and draft length to run, for your model, GPU and load.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"specplan {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    del version


if __name__ == "__main__":
    app()
