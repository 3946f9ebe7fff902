"""Makes the site's pages that the code knows: findings, studies, experiments, the Run's schema and the Python API.

MkDocs calls the functions named ``on_...`` (mkdocs.org/user-guide/configuration/#hooks).
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

SCHEMA = "hwdyno.run-2.schema.json"
"""The file of the site with the Run's JSON Schema."""
_PLACE = re.compile(r"<!-- (experiments|api|schema)(?: (\w+))? -->")


def on_config(config: Any) -> Any:
    """The navigation, with the pages that are made and those of resources that it does not name."""
    nav = list(config.nav)
    at = next(index for index, page in enumerate(nav) if "Resources" in page) + 1
    pages = nav[at - 1]["Resources"]
    others = {f"resources/{path.name}" for path in Path(config.docs_dir, "resources").glob("*.md")} - set(pages)
    nav[at - 1] = {"Resources": [*pages, *sorted(others)]}
    nav[at:at] = [
        {"Findings": ["findings/index.md", *(f"findings/{rule}.md" for rule in sorted(_lessons()))]},
        {"Studies": ["studies/index.md", *(f"studies/{name}.md" for name in _studies())]},
    ]
    config.nav = nav
    return config


def on_files(files: Files, config: Any) -> Files:
    """The made pages beside those of the folder."""
    pages = {f"findings/{rule}.md": text for rule, text in _lessons().items()}
    pages |= {f"studies/{name}.md": text for name, text in _studies().items()}
    pages |= {"findings/index.md": _findings(), "studies/index.md": _list_of_studies()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, SCHEMA, content=json.dumps(_json_schema(), indent=2, ensure_ascii=False)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A page whose places for tables are filled."""
    makers = {"experiments": _experiments, "api": _api, "schema": _schema}
    return _PLACE.sub(lambda found: makers[found[1]](*filter(None, [found[2]])), markdown)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in lines)


# --- findings


def _lessons() -> dict[str, str]:
    """Each rule's lesson, with its command."""
    from hwdyno.explain.findings import all_rules, lessons

    return {
        rule.name: f"{lessons.lesson(rule.name).text}\nIn a terminal: `hwdyno explain {rule.name}`\n"
        for rule in all_rules()
    }


def _findings() -> str:
    """The list of all findings, by family."""
    from hwdyno.explain.findings import all_rules, lessons

    parts = ["# Findings\n\nEach rule has a lesson: its law, a drawing, an example, and when it is wrong.\n"]
    families: dict[str, list[str]] = {}
    for rule in all_rules():
        family = rule.check.__module__.rpartition(".")[2].replace("_", " ")
        line = f"- [{lessons.lesson(rule.name).title}]({rule.name}.md) (`{rule.name}`)"
        families.setdefault(family, []).append(line)
    return "\n".join(
        [*parts, *(f"\n## {name.capitalize()}\n\n" + "\n".join(lines) for name, lines in families.items())]
    )


# --- studies


def _studies() -> dict[str, str]:
    from hwdyno import studies

    made = {}
    for study in studies.all():
        rows = [(f"`{question.name}`", question.asks, question.load) for question in study.questions]
        parts = [f"# {study.title}", study.asks + ".", f"```\nhwdyno study {study.name} --path /data\n```"]
        parts += ["## Questions", _table(("experiment", "question", "load"), rows)] if rows else []
        wrong = "\n".join(f"- {mistake}" for mistake in study.mistakes)
        parts += ["## Errors in the published study", wrong] if wrong else []
        made[study.name] = "\n\n".join(parts) + "\n"
    return made


def _list_of_studies() -> str:
    from hwdyno import studies

    rows = [
        (f"[{study.title}]({study.name}.md)", study.asks, f"`hwdyno study {study.name}`") for study in studies.all()
    ]
    text = (
        "A published study is reproduced on this machine, with its tables and observations, and without its mistakes."
    )
    return f"# Studies\n\n{text}\n\n" + _table(("study", "asks", "command"), rows) + "\n"


# --- resources, the API and the document


def _experiments(resource: str) -> str:
    from hwdyno.measure import experiments

    rows = [
        (f"`{experiment.name}`", experiment.asks, experiment.load)
        for experiment in experiments.all()
        if experiment.resource == resource and not experiment.name.startswith(f"{resource}.snia-")
    ]
    return "## Experiments\n\n" + _table(("name", "measures", "load"), rows)


def _api() -> str:
    """Each function with its options, which are typed; none of ``measure`` has a signature for all commands."""
    from hwdyno import api
    from hwdyno.api import measuring, options

    common = options.CommonOptions.__annotations__
    rows = [("all", ", ".join(f"`{name}`" for name in common))]
    for command in ("run", *measuring.MEASURED):
        typed = getattr(options, f"{command.capitalize()}Options").__annotations__
        rows.append((f"`{command}`", ", ".join(f"`{name}`" for name in typed if name not in common)))
    parts = []
    for name in api.__all__:
        value = getattr(api, name)
        if inspect.isfunction(value):
            # An annotation is quoted, a default only where it is a text: after its equals sign.
            signature = re.sub(r"(: |-> )'([^']+)'", r"\1\2", str(inspect.signature(value)))
            text = (inspect.getdoc(value) or "").replace("``", "`")
            parts.append(f"### hwdyno.{name}\n\n```python\nhwdyno.{name}{signature}\n```\n\n{text}")
    return "\n\n".join([*parts, "### Options", _table(("command", "options"), rows)])


def _json_schema() -> dict[str, Any]:
    from hwdyno.system.store import json_schema

    return json_schema()


def _schema() -> str:
    """A table of fields for each type of the document."""
    schema = _json_schema()
    types = {"Run": schema, **schema.get("$defs", {})}
    parts = []
    for name, definition in types.items():
        fields = definition.get("properties", {})
        if fields:
            rows = [(f"`{field}`", _type(kind), str(kind.get("description", ""))) for field, kind in fields.items()]
            text = str(definition.get("description", "")).partition("\n\n")[0].replace("``", "`")
            parts.append(f"## {name}\n\n{text}\n\n" + _table(("field", "type", "meaning"), rows))
    return "\n\n".join(parts).replace("``", "`")


def _type(kind: dict[str, Any]) -> str:
    """A JSON type in words, with a link to a type of the document."""
    if "$ref" in kind:
        name = str(kind["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in kind:
        return " or ".join(map(_type, kind["anyOf"]))
    if kind.get("type") == "array":
        return f"list of {_type(kind.get('items') or {})}"
    if "enum" in kind:
        return " or ".join(f"`{word}`" for word in kind["enum"])
    return str(kind.get("type", kind.get("const", "any")))
