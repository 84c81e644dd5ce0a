"""The page: answer first, no request to anywhere, no error in a real browser."""

import dataclasses
import re
import shutil
import subprocess
from html import escape

import pytest

from simtool.report.page.build import STAGES, build_page
from simtool.report.page.page import render
from simtool.trace.trace import write_trace

_COMMAND = "simtool report <x>"
_CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


@pytest.fixture(scope="module")
def page(traces):
    return build_page(traces, _COMMAND)


@pytest.fixture(scope="module")
def html(page):
    return render(page)


def test_the_answer_comes_first_and_has_its_interval(page, html):
    texts = [text for text, _ in page.headlines]
    assert [text.split(":")[0] for text in texts] == ["live", "modeled"]
    assert all("95 % interval" in text for text in texts)
    body = html[html.index("<body>") :]
    assert body.index('class="answer"') < body.index("<section>")


def test_every_run_says_where_it_comes_from(page, html, traces):
    assert [source.trace for source in page.sources].count("replay-lag") == 1
    assert len(page.sources) == len(traces)
    assert {source.command for source in page.sources if source.origin == "live"} == {
        f"simtool record {name}" for name in ("lag", "this-step", "static")
    }
    assert all(source.notes == "replay of 0-static" for source in page.sources if source.origin == "modeled")
    assert "simtool report &lt;x&gt;" in html


def test_the_page_is_one_small_file_that_asks_for_nothing(html):
    assert len(html.encode()) < 2_000_000
    own = re.sub(r'<script type="text/plain".*?</script>', "", html, flags=re.DOTALL)
    assert len(own) < 60_000
    assert not re.search(r'(?:src|href)="(?!data:|#)', own)
    assert "default-src 'none'" in own


def test_every_figure_says_what_it_shows_and_every_section_has_its_link(page, html):
    figures = [section for section in page.sections if section.figure is not None]
    assert html.count('role="img" aria-label="') == len(figures)
    for section in page.sections:
        title = re.escape(escape(section.title))
        (slug,) = re.findall(rf'<h2 id="([^"]+)"><a href="#\1">{title}<'.replace("\\1", r"[^\"]+"), html)
        assert f'<a href="#{slug}">' in html[: html.index("<section>")]


def test_the_same_step_can_be_browsed(page, html):
    (timeline,) = [section for section in page.sections if section.title == "One step, lane by lane"]
    assert len(timeline.views) > 2
    assert any(view is timeline.figure for _, view in timeline.views)
    assert '<input type="range"' in html


def test_steps_stand_in_the_order_of_the_placements_whether_or_not_they_were_replayed(traces):
    page = build_page([trace for trace in traces if trace.path.name != "replay-lag"], _COMMAND)
    (ops,) = [section for section in page.sections if section.title == "Op by op"]
    assert [title for title, _ in ops.folded] == ["static (live)", "this-step (live)", "lag (live)"]


def test_one_command_stands_once(html):
    assert html.count('<td data-head="Command">simtool record lag</td>') == 1
    assert "9 runs by 4 commands" in html


def test_one_trace_makes_a_page_without_a_comparison(traces):
    page = build_page(traces[:1], _COMMAND)
    assert page.headlines == [("live: lag is alone, so there is nothing to compare it with", "")]
    assert "not put to the test" in "".join(section.text for section in page.sections)


def test_progress_reaches_its_end(traces):
    seen = []
    build_page(traces[:1], _COMMAND, progress=seen.append)
    assert seen == list(range(1, STAGES + 1))


@pytest.mark.skipif(_CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_draws_every_figure_without_a_console_error(html, page, tmp_path):
    file = tmp_path / "page.html"
    probe = (
        "<script>window.addEventListener('load', () => setTimeout(() => {"
        "window.dispatchEvent(new Event('beforeprint')); setTimeout(() => {"
        "const figures = [...document.querySelectorAll('.figure')];"
        "const zoom = [...document.querySelectorAll('.zooms button')].at(-1); zoom.click();"
        "document.body.dataset.zoomed = `${zoom.textContent}: ${zoom.parentNode.nextSibling.layout.xaxis.range}`;"
        "document.body.dataset.drawn = figures.filter(figure => figure.querySelector('.main-svg')).length;"
        "const root = document.documentElement; document.body.dataset.sticksOut = root.scrollWidth - root.clientWidth;"
        "}, 3000)}, 3000))</script></body>"
    )
    file.write_text(html.replace("</body>", probe))
    quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
    assert _CHROMIUM is not None
    command = [_CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", *quiet, f"--user-data-dir={tmp_path / 'user'}"]
    command += ["--window-size=500,900", "--virtual-time-budget=20000", "--enable-logging=stderr", "--dump-dom"]
    result = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in result.stderr
    figures = sum(section.figure is not None for section in page.sections)
    assert f'data-drawn="{figures}"' in result.stdout
    (low, high) = re.findall('data-zoomed="decide and build: ([^,]+),([^"]+)"', result.stdout)[0]
    (timeline,) = [section.figure for section in page.sections if section.title == "One step, lane by lane"]
    assert [float(low), float(high)] == timeline.layout.updatemenus[0].buttons[1].args[0]["xaxis.range"]
    whole = timeline.layout.updatemenus[0].buttons[0].args[0]["xaxis.range"]
    assert float(high) < whole[1] * 0.8  # the confidence that lag keeps at the end is no decision of this step
    assert 'data-sticks-out="0"' in result.stdout  # of a narrow window


def test_a_profilers_output_gets_its_steps_drawn_and_nothing_compared(traces, tmp_path):
    source = traces[0]
    facts = {"origin": "imported", "placement": None, "algorithm": "none", "engine": "profiler"}
    manifest = dataclasses.replace(source.manifest, **facts)
    imported = write_trace(tmp_path / "imported", manifest, {"events": source.table("events")})
    page = build_page([imported], _COMMAND)
    ((headline, _),) = page.headlines
    assert "no throughput to compare" in headline
    drawn = [section.title for section in page.sections if section.figure is not None]
    assert drawn == ["One step, lane by lane", "Where the step's time goes"]
    assert page.sources[0].tokens_per_s == "-"


def test_op_tables_show_where_there_is_slack(page):
    (ops,) = [section for section in page.sections if section.title == "Op by op"]
    tables = dict(ops.folded)
    assert list(tables) == ["static (live)", "this-step (live)", "lag (live)"]
    slack = {row[0]: row[-1] for row in tables["lag (live)"].rows if row[1] == "host"}
    assert slack["finish"] == "0 ns"
    assert slack["decide"].endswith(("us", "ms"))
