"""What one run of a plan has measured so far: its points, its results as the Run has them, and what degrades it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hwdyno import __version__
from hwdyno.analysis.ceilings.limits import known_ceilings
from hwdyno.analysis.resources import ceilings_of_site
from hwdyno.measure.hosts.measured_site import Site
from hwdyno.measure.measurement import Reading
from hwdyno.measure.peers import Peer, on_site
from hwdyno.measure.plan import Limits, Plan, Planned, showing, timing
from hwdyno.measure.runner import faults
from hwdyno.measure.runner.declared import kept_declaration
from hwdyno.measure.runner.observers import Journal, NextReading, Progress
from hwdyno.measure.runner.peer_readings import PeerReadings
from hwdyno.measure.runner.point import PointInWork
from hwdyno.measure.workspace import DataFile
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Note
from hwdyno.model.words import Ceiling, ExperimentResult, Measurement, Parameters, Run
from hwdyno.system.store import StoreError


class RunRecord:
    """The points of one run, as they are measured, kept and turned into results."""

    def __init__(self, plan: Plan, site: Site, progress: Progress, peers: Sequence[Peer]) -> None:
        self.plan, self.site, self.progress = plan, site, progress
        if site.several and peers:
            reasons = {peer.name: on_site.why_left_out(peer, site) for peer in peers}
            for why in filter(None, reasons.values()):
                progress.says(why)
            peers = [peer for peer in peers if not reasons[peer.name]]
            self.plan = replace(plan, peers=bool(peers))
        self.peer_readings = PeerReadings(peers, site, plan.budget_s)
        self.plan = replace(self.plan, experiments=tuple(map(self.peer_readings.with_pairs, self.plan.experiments)))
        self.degraded: list[str] = []
        self.unreported: list[str] = []
        """Reasons that the user has not seen yet."""
        self.failure = ""
        """The first failure while nothing was measured yet; empty if there was none."""
        self.notes: list[Note] = []
        self.workspace: DataFile | None = None
        self.laid_out_bytes = 0
        self.points = {
            planned.experiment.name: [
                PointInWork(
                    index,
                    parameters,
                    planned.declaration,
                    showing=showing(planned, parameters, timing(plan, None), plan.given),
                )
                for index, parameters in enumerate(planned.points)
            ]
            for planned in plan.experiments
        }
        self.kept: dict[str, list[int]] = {}
        """Points of each experiment that the journal holds, in its order."""
        self.absent: Counter[str] = Counter()
        """Number of points of each experiment that this machine has no instruction for."""
        self.ceilings: dict[str, tuple[Ceiling, ...]] = {}
        self.readings = 0
        self.time_left_s: float | None = None
        """Estimated at the last reading; none before the first."""

    def _begin(self, step: NextReading) -> None:
        """Report a reading that is about to begin."""
        self.time_left_s = step.left_s
        self.progress.begins(step)

    def _find_ceilings(self, machines: Sequence[Machine], limits: Limits) -> None:
        """Each experiment's ceilings, on these machines and by the bounds that the user knows."""
        self.ceilings = {
            planned.experiment.name: tuple(
                ceiling
                for ceiling in ceilings_of_site(machines, planned.experiment.resource)
                if not planned.experiment.ceilings or ceiling.kind in planned.experiment.ceilings
            )
            + known_ceilings(planned.experiment.resource, limits.ceilings, limits.links, limits.devices)
            for planned in self.plan.experiments
        }

    def _header(self, run_id: str, begun: str, machines: tuple[Machine, ...]) -> Run:
        """The Run before its first point."""
        return Run(
            id=run_id,
            started=begun,
            finished=None,
            machines=machines,
            profile=self.plan.profile.name,
            command=self.plan.command,
            experiments=tuple(self._result(planned, ()) for planned in self.plan.experiments),
            version=__version__,
            study=self.plan.study,
            job=dict(self.site.job),
        )

    def _result(self, planned: Planned, points: Sequence[PointInWork]) -> ExperimentResult:
        """The experiment's current result; its points are in the order of the plan."""
        at = {point.index: index for index, point in enumerate(points)}
        peers = tuple(replace(result, point=at[result.point]) for point in points for result in point.peers)
        fixed = self._shared_parameters(planned, points)
        return ExperimentResult(
            name=planned.experiment.name,
            resource=planned.experiment.resource,
            asks=planned.experiment.asks,
            load=planned.load,
            kernel=planned.experiment.kernel,
            points=tuple(point.measurement or self._make_measurement(planned, point, "") for point in points),
            metric=planned.experiment.metric,
            ceilings=self.ceilings.get(planned.experiment.name, ()),
            peers=peers,
            planned=max(len(planned.points), len(self.points[planned.experiment.name]))
            - self.absent[planned.experiment.name],
            fixed=fixed,
            commands=tuple(dict.fromkeys([self.plan.command, *(result.command for result in peers)])),
            declaration=kept_declaration(planned, self.plan.given, fixed),
        )

    def _shared_parameters(self, planned: Planned, points: Sequence[PointInWork]) -> Parameters:
        """Every parameter that all points share, defaults included, as the kernel used them."""
        used = [reading.get("parameters", {}) for point in points for reading in point.readings]
        swept = {name for point in planned.points for name in point}
        same: Parameters = dict(planned.fixed)
        for name, value in used[0].items() if used else ():
            if name not in swept and all(parameters.get(name) == value for parameters in used):
                same[name] = value if isinstance(value, str | int | float) or value is None else str(value)
        same["seed"] = self.plan.seed
        for name in (*planned.declaration.consent, "overwrite"):
            same.pop(name, None)  # Typed each time, and no property of what was measured.
        if planned.needs_data_file:
            same["path"] = str(self.plan.path)
        return same

    def _make_measurement(self, planned: Planned, point: PointInWork, ended_by: str) -> Measurement:
        notes = self.notes if planned.needs_data_file else ()
        return point.to_measurement(self.plan.profile, ended_by, notes)

    def _keep(self, journal: Journal, name: str, point: PointInWork, measurement: Measurement) -> None:
        """Store the point's current state; if the store fails, the Run goes on without its safety."""
        kept = self.kept.setdefault(name, [])
        if point.index not in kept:
            kept.append(point.index)
        try:
            journal.point(name, measurement, self.time_left_s)
            for result in point.peers:
                journal.peer(name, replace(result, point=kept.index(point.index)))
        except StoreError as error:
            self._degrade(f"points could not be stored as they ended: {faults.format_error(error)}")

    def _name_failures(self, name: str, parameters: Parameters, reading: Reading) -> None:
        """Report hosts without a reading and the reason: a lost host once, any other with the point."""
        for part in reading.get("hosts", ()):
            host, failure = part["host"], part["failure"]
            if host in self.site.lost:
                self._degrade(f"host {host} was lost; the others continued: {self.site.lost[host]}")
            elif failure:
                self._degrade(f"{name} at {faults.at(parameters)}: host {host}: {failure}")

    def _hurt(self, planned: Planned) -> str:
        """How another process damaged the data file; empty if it is whole."""
        if self.workspace is None or "data_file" not in planned.experiment.needs:
            return ""
        return faults.hurt(self.workspace, self.laid_out_bytes)

    def _degrade(self, why: str) -> None:
        if why not in self.degraded:
            self.degraded.append(why)
            self.unreported.append(why)
            self._report_degraded()

    def _remember_failure(self, why: str) -> None:
        """Remember the first failure while nothing was measured: it is the run's error if nothing ever is."""
        if not self.readings:
            self.failure = self.failure or why

    def _report_degraded(self) -> None:
        """Report what degrades the Run; of a run that measured nothing, only the one cause at the end."""
        if self.readings or not self.failure:
            for why in self.unreported:
                self.progress.says(why)
            self.unreported.clear()
