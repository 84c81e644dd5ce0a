"""Every command's document, by the command's name; "validate-published" is that of `validate --published`."""

from __future__ import annotations

from collections.abc import Mapping

from simtool.cli.documents import of_replays, of_studies, of_traces
from simtool.cli.documents.record import JsonDocument

DOCUMENTS: Mapping[str, type[JsonDocument]] = {
    "record": of_traces.RecordDocument,
    "import": of_traces.ImportDocument,
    "inspect": of_traces.InspectDocument,
    "fill": of_traces.FillDocument,
    "synth": of_traces.SynthDocument,
    "advise": of_replays.AdviseDocument,
    "validate": of_replays.ValidateDocument,
    "validate-published": of_replays.PublishedDocument,
    "compare": of_replays.CompareDocument,
    "power": of_replays.PowerDocument,
    "calibrate": of_replays.CalibrateDocument,
    "profile": of_replays.ProfileDocument,
    "replay": of_replays.ReplayDocument,
    "why": of_studies.WhyDocument,
    "sweep": of_studies.SweepDocument,
    "search": of_studies.SearchDocument,
    "tornado": of_studies.TornadoDocument,
    "what-if": of_studies.WhatIfDocument,
    "break-even": of_studies.BreakEvenDocument,
    "lags": of_studies.LagsDocument,
    "answers": of_studies.AnswersDocument,
    "report": of_replays.ReportDocument,
    "export": of_traces.ExportDocument,
    "placements": of_traces.PlacementsDocument,
    "policies": of_traces.PoliciesDocument,
    "first-run": of_traces.FirstRunDocument,
    "doctor": of_traces.DoctorDocument,
}
