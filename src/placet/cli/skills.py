"""`placet skills`: what models are offered, how runs went with it and without it, and what comes and goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placet.cli.inputs import Subject, db_option, folder_names, json_option, model_option, single
from placet.cli.memory import tenant_option
from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.agents.report import Report
    from placet.agents.spec import AgentSpec
    from placet.memory.skills.trial import Arm

_EMPTY = "There are no skills here. Add one: placet skills import FOLDER"


@click.group(cls=Subject, short_help="Skills: list, show, test, import, export, retire.")
def skills() -> None:
    """Skills that models are offered: from the project, from you, and from the store.

    Without a command: all of them.
    """


@skills.command("list", short_help="List skills, and how runs went with them and without.")
@tenant_option
@db_option
@json_option
@click.pass_obj
def list_skills(output: Output, tenant: str | None, db: str | None, as_json: bool) -> int:
    """List every skill with its state, and the runs with it and without it that have an outcome.

    Exit codes: 0 listed, also if there are none.
    """
    from placet.app.skills import open_skills, skill_data, with_trials
    from placet.cli.skills_view import skills_table

    with open_skills(db) as opened:
        found = with_trials(opened.shelf, tenant)
    if as_json:
        data = [skill_data(skill, trial) for skill, trial in found]
        output.show_json({"skills": data, "problems": list(opened.problems)})
        return 0
    if found:
        output.show(skills_table(found))
    else:
        output.talk(_EMPTY)
    for problem in opened.problems:
        output.talk(problem)
    return 0


@skills.command(short_help="Show a skill.")
@click.argument("name", metavar="NAME")
@tenant_option
@db_option
@json_option
@click.pass_obj
def show(output: Output, name: str, tenant: str | None, db: str | None, as_json: bool) -> int:
    """Show the skill NAME: where it is from, when it is offered, both arms, its instructions and its files.

    Exit codes: 0 shown, 2 there is no such skill.
    """
    from placet.app.skills import open_skills, skill_data
    from placet.cli.skills_view import skill_lines
    from placet.runtime.sync import run_sync

    with open_skills(db) as opened:
        skill = run_sync(opened.shelf.get(name, tenant=tenant))
        trial = run_sync(opened.shelf.trial(skill, tenant=tenant))
    if as_json:
        output.show_json(skill_data(skill, trial) | {"instructions": skill.document.body})
    else:
        output.show("\n".join(skill_lines(skill, trial)))
    return 0


@skills.command("import", short_help="Add a skill from a folder.")
@click.argument("path", metavar="FOLDER", shell_complete=folder_names)
@click.option(
    "--trial", "is_trial", is_flag=True, help="Offer it in half of the runs until it has earned more."
)
@tenant_option
@db_option
@json_option
@click.pass_obj
def import_skill(
    output: Output, path: str, is_trial: bool, tenant: str | None, db: str | None, as_json: bool
) -> int:
    """Add the skill in FOLDER, as agentskills.io describes it: a SKILL.md, and files beside it.

    Its scripts are not run. From now on it is offered to every run that it fits, as yours.

    Exit codes: 0 added, or there before, 2 it is no skill; nothing is added then.
    """
    from pathlib import Path

    from placet.app.skills import open_skills
    from placet.memory.skills.document import read_document, read_folder
    from placet.runtime.sync import run_sync

    folder = Path(path).absolute()
    files = read_folder(folder)
    read_document(files, str(folder))  # Before anything is created.
    with open_skills(db, writes=True) as opened:
        added = run_sync(
            opened.shelf.add(
                files,
                str(folder),
                source=f"import:{folder}",
                state="provisional" if is_trial else "kept",
                tenant=tenant,
            )
        )
    if as_json:
        output.show_json({"name": added.name, "version": added.version, "state": added.state})
    else:
        output.talk(f"Skill {added.name}, version {added.version}: {added.state}.")
    return 0


@skills.command("export", short_help="Write a skill to a folder.")
@click.argument("name", metavar="NAME")
@single("--to", "path", metavar="FOLDER", help="Write NAME into this folder. Default: the current one.")
@tenant_option
@db_option
@json_option
@click.pass_obj
def export_skill(
    output: Output, name: str, path: str | None, tenant: str | None, db: str | None, as_json: bool
) -> int:
    """Write the skill NAME to a new folder of its name, every byte as it was imported.

    Exit codes: 0 written, 2 there is no such skill, or there is such a folder.
    """
    from pathlib import Path

    from placet.app.files import unusable
    from placet.app.skills import open_skills
    from placet.errors import UsageError
    from placet.memory.skills.document import write_folder
    from placet.runtime.sync import run_sync

    with open_skills(db) as opened:
        skill = run_sync(opened.shelf.get(name, tenant=tenant))
    target = Path(path or ".") / skill.name
    try:
        write_folder(skill.files, target)
    except FileExistsError:
        raise UsageError(
            f"There is {target.absolute()} already, and nothing is written over it. Name another folder to "
            f"write {skill.name} into: --to FOLDER"
        ) from None
    except FileNotFoundError:
        raise UsageError(f"There is no folder {target.parent.absolute()}. Make it first.") from None
    except OSError as error:
        raise unusable("write the skill to", str(target.absolute()), error) from None
    if as_json:
        output.show_json({"name": skill.name, "folder": str(target), "files": sorted(skill.files)})
    else:
        output.talk(f"Written to {target}.")
    return 0


def _changing(name: str, method: str, words: tuple[str, str], short_help: str, text: str) -> click.Command:
    @click.argument("skill", metavar="NAME")
    @tenant_option
    @db_option
    @json_option
    @click.pass_obj
    def command(output: Output, skill: str, tenant: str | None, db: str | None, as_json: bool) -> int:
        from placet.app.skills import open_skills
        from placet.runtime.sync import run_sync

        with open_skills(db, writes=True) as opened:
            changed = run_sync(getattr(opened.shelf, method)(skill, tenant=tenant))
        if as_json:
            output.show_json({"name": skill, "changed": changed})
        else:
            output.talk(words[0] if changed else words[1])
        return 0

    return click.command(name, short_help=short_help, help=text)(command)


retire = _changing(
    "retire",
    "retire",
    ("It is not offered any more.", "It was not offered before."),
    "Stop offering a skill.",
    "Stop offering the skill NAME of the store. It stays there, with all that is known about it.\n\n"
    "Exit codes: 0 it is retired, 2 there is no such skill.",
)
trust = _changing(
    "trust",
    "trust",
    ("It is trusted.", "It was trusted before."),
    "Approve a skill that untrusted text went into.",
    "Approve the skill NAME: it was made from text that an outsider chose, and is offered to nobody until "
    "you have read it (placet skills show NAME).\n\nExit codes: 0 it is trusted, 2 there is no such skill.",
)
skills.add_command(retire)
skills.add_command(trust)


@skills.command(short_help="Say how a run went.")
@click.argument("run", metavar="RUN")
@click.option("--ok/--bad", "succeeded", required=True, help="Whether it did what it was for.")
@model_option
@tenant_option
@db_option
@json_option
@click.pass_obj
def judge(
    output: Output,
    run: str,
    succeeded: bool,
    model: str | None,
    tenant: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Say whether RUN did what it was for. It counts for every skill that the run was offered, or was not.
    With `auto_distill = true` in your settings, your model makes or repairs skills by it.

    Exit codes: 0 recorded, 2 there is no such run.
    """
    output.claim()
    from placet.app.skills import open_judging
    from placet.cli.skills_view import judgement_line
    from placet.render.skill_story import tell_skills
    from placet.runtime.sync import run_sync

    with open_judging(db, model=model) as opened, output.waiting("learning"):
        memory = opened.memory
        # Skills know runs that were pruned since.
        known = memory.skills.store.runs(memory.skills.tenant(tenant), run=run, limit=1)
        name = run if known else opened.records.run_id(run)
        found = run_sync(memory.record_outcome(name, succeeded, by="person", tenant=tenant))
        learned = [each for each in opened.events if each.kind != "skill_outcome"]
    if as_json:
        shown = [
            {"name": each.run.name, "arm": each.run.arm, "state": each.state, "trial": each.trial.to_dict()}
            for each in found
        ]
        made = [title for each in learned for title in each.data.get("names", ())]
        output.show_json({"run": name, "skills": shown, "learned": made})
    else:
        output.show("\n".join(map(judgement_line, found)) or "No skill fitted the run.")
        output.show(*tell_skills(learned))
    return 0


@skills.command("test", short_help="Try an agent with a skill and without it.")
@click.argument("name", metavar="NAME")
@single("--agent", metavar="AGENT", required=True, help="The agent whose scenarios are run.")
@click.option("--k", type=click.IntRange(1, 100), default=1, show_default=True, help="Runs of each scenario.")
@model_option
@tenant_option
@db_option
@json_option
@click.pass_obj
def test_skill(
    output: Output,
    name: str,
    agent: str,
    k: int,
    model: str | None,
    tenant: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Run the scenarios of AGENT with the skill NAME, and as often without it. The outcomes count.

    Exit codes: 0 the skill did no worse, 1 it did worse, 2 bad input, 130 after Ctrl-C.
    """
    output.claim()
    import os

    from placet.app.agent_trials import open_trials
    from placet.app.agents import find_agents
    from placet.app.options import RunOptions
    from placet.app.skills import open_skills, record_scenarios, with_skill
    from placet.cli.agent_test import stoppable
    from placet.cli.output import OPENING
    from placet.cli.skills_view import trial_lines
    from placet.cli.trust import terminal_question
    from placet.errors import UsageError
    from placet.runtime.sync import run_sync

    with open_skills(db) as opened:
        skill = run_sync(opened.shelf.get(name, tenant=tenant))
    if skill.is_untrusted:
        raise UsageError(
            f"No agent reads skill '{skill.name}' before you have approved it. Read it: placet skills show "
            f"{skill.name}. Approve it: placet skills trust {skill.name}"
        )
    agents = find_agents(os.environ)
    entry = agents.find(agent)
    confirm = terminal_question(output)
    agents.check_trust(entry, os.environ, confirm)
    assert entry.spec is not None
    reports: dict[Arm, Report] = {}
    specs: dict[Arm, AgentSpec] = {"with": with_skill(entry.spec, skill), "without": entry.spec}
    for arm, spec in specs.items():
        opening = open_trials(RunOptions(model=model or spec.model), at_once=1, confirm=confirm)
        with output.opened(opening, OPENING) as app:
            output.redactor = app.redactor
            trying = app.trying
            work = lambda cancel, trying=trying, spec=spec: trying.try_all(spec, k=k, cancel=cancel)  # noqa: E731
            report, signal = stoppable(output, work, trying.model, f"trying '{agent}'")
        if signal:
            return 128 + signal
        reports[arm] = report
    with open_skills(db, writes=True) as opened:
        trial, state = record_scenarios(opened.shelf, skill, reports, tenant=tenant)
    if as_json:
        output.show_json({"name": name, "agent": agent, "state": state, "trial": trial.to_dict()})
    else:
        output.show("\n".join(trial_lines(trial, state)))
    passed = {arm: sum(t.passed for s in each.scenarios for t in s.trials) for arm, each in reports.items()}
    return 0 if passed["with"] >= passed["without"] else 1
