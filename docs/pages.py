"""Writes the site's sources: the pages of this folder, and in them what the code knows.

``python docs/pages.py FOLDER`` makes a folder, which Sphinx reads with the settings in ``docs/site``. The code knows
findings, studies, experiments, the Run's schema and the Python API.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
SCHEMA = "hwdyno.run-2.schema.json"
"""The file of the site with the Run's JSON Schema."""
NAVIGATION = {
    "Start": ["install", "tutorial"],
    "Measure": [
        *(f"resources/{name}" for name in ("storage", "memory", "compute", "gpu", "network", "object")),
        *("resources/training", "resources/inference", "resources/together", "many-hosts", "fio-jobs"),
    ],
    "Understand": ["findings", "never-fooled", "storage-cost", "inference-beside"],
    "Compare": ["compare", "history", "studies", "mlperf-storage"],
    "Automate": ["operators", "python", "run"],
    "For maintainers": [
        *(f"dev/{name}" for name in ("promises", "hosts", "signals", "together", "peers", "calibration", "faults")),
    ],
}
"""The pages under their captions, in the order of a user's day."""
_PLACE = re.compile(r"<!-- (experiments|api|schema|findings|studies)(?: (\w+))? -->")
_LINE = 88
"""Columns of a signature that fit beside the navigation; a longer one has a line for each parameter."""


def main(folder: Path) -> None:
    """Write everything that the site is built from into a new folder."""
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("*.py", "*.lock", "__pycache__", "site"))
    for page in folder.rglob("*.md"):
        page.write_text(_fill(page.read_text(encoding="utf-8")), encoding="utf-8")
    with (folder / "index.md").open("a", encoding="utf-8") as index:
        index.write(_navigation())
    (folder / SCHEMA).write_text(json.dumps(_json_schema(), indent=2, ensure_ascii=False), encoding="utf-8")


def _navigation() -> str:
    """Sphinx's directives for the navigation. A resource's page that it does not name follows the others."""
    others = {f"resources/{path.stem}" for path in (DOCS / "resources").glob("*.md")} - set(NAVIGATION["Measure"])
    captions = NAVIGATION | {"Measure": [*NAVIGATION["Measure"], *sorted(others)]}
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
        for caption, pages in captions.items()
    )


def _fill(markdown: str) -> str:
    """A page whose places for tables are filled."""
    makers = {
        "experiments": _experiments,
        "api": _api,
        "schema": _schema,
        "findings": _findings,
        "studies": _studies,
    }
    return _PLACE.sub(lambda found: makers[found[1]](*filter(None, [found[2]])), markdown)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in lines)


# --- findings


def _findings() -> str:
    """The lesson of each rule by family: its law, and behind a fold what follows it."""
    from hwdyno.explain.findings import all_rules, lessons

    families: dict[str, list[str]] = {}
    for rule in all_rules():
        lesson = lessons.lesson(rule.name)
        law, _, others = lesson.text.partition("\n\n")[2].removeprefix("**Law:** ").partition("\n\n")
        fold = f'<details id="{rule.name}"><summary><code>{rule.name}</code>: example and limits</summary>'
        text = f"### {lesson.title}\n\n{law}\n\n{fold}\n\n{others}\n</details>"
        families.setdefault(_family(rule.check.__module__), []).append(text)
    return "\n\n".join(f"## {name}\n\n" + "\n\n".join(rules) for name, rules in families.items())


def _family(module: str) -> str:
    """The heading of a family of rules: how its module's docstring begins."""
    text = re.split("[:,.]", sys.modules[module].__doc__ or "")[0]
    text = re.sub(r"^(?:A rule|Rules) on ", "", text)
    return text[0].upper() + text[1:]


# --- studies


def _studies() -> str:
    from hwdyno import studies

    made = []
    for study in studies.all():
        rows = [(f"`{question.name}`", question.asks, question.load) for question in study.questions]
        parts = [f"## {study.title}", study.asks + ".", f"```\nhwdyno study {study.name} --path /data\n```"]
        parts += [_table(("experiment", "question", "load"), rows)] if rows else []
        wrong = "\n".join(f"- {mistake}" for mistake in study.mistakes)
        parts += ["### Errors in the published study", wrong] if wrong else []
        made.append("\n\n".join(parts))
    return "\n\n".join(made)


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
            signature = f"hwdyno.{name}" + re.sub(r"(: |-> )'([^']+)'", r"\1\2", str(inspect.signature(value)))
            text = (inspect.getdoc(value) or "").replace("``", "`")
            parts.append(f"### hwdyno.{name}\n\n```python\n{_broken(signature)}\n```\n\n{text}")
    return "\n\n".join([*parts, "### Options", _table(("command", "options"), rows)])


def _broken(signature: str) -> str:
    """A signature on one line where it fits, or with one parameter a line."""
    if len(signature) <= _LINE:
        return signature
    name, _, others = signature.partition("(")
    parameters, _, result = others.rpartition(") ->")
    lines = re.split(r", (?=[*/]|\w+: )", parameters)
    return f"{name}(\n" + "".join(f"    {line},\n" for line in lines) + f") ->{result}"


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
        return " or ".join(f"`{word}`" if word else "empty" for word in kind["enum"])
    return str(kind.get("type", kind.get("const", "any")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
