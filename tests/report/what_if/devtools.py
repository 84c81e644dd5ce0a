"""A page in a Chromium without a window, driven over the DevTools protocol: keys, mouse, touch, pictures."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.report.what_if.browser import CHROMIUM, QUIET

_KEYS = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "ArrowUp": 38, "ArrowDown": 40, "Tab": 9}


class Tab:
    """One page. Commands go over a pipe, one after the other; what the console and the network say is kept."""

    def __init__(self, page: Path, folder: Path, width: int = 1100, height: int = 900, *, dark: bool = False) -> None:
        assert CHROMIUM is not None
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", *QUIET, "--remote-debugging-pipe"]
        command += [f"--user-data-dir={folder / 'user'}", "about:blank"]
        (theirs_in, self._out), (self._in, theirs_out) = os.pipe(), os.pipe()
        # on 3 and 4, where the browser expects them
        as_3_and_4 = [
            "bash",
            "-c",
            f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}',
            "bash",
        ]
        self._process = subprocess.Popen(
            [*as_3_and_4, *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._count, self._buffer, self._session = 0, b"", ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        if width < 500:
            self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        if dark:
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.call("Page.navigate", url=page.as_uri())
        self.until("document.body?.dataset.shown === 'yes'")

    def __enter__(self) -> Tab:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Send one command and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._count:
                assert "error" not in told, told
                return dict(told["result"])

    def run(self, script: str) -> Any:
        """Return what an expression comes to in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, script: str, limit_s: float = 60) -> None:
        """Wait until an expression holds."""
        end = time.monotonic() + limit_s
        while not self.run(script):
            assert time.monotonic() < end, f"never: {script}"
            time.sleep(0.05)

    def settled(self) -> None:
        """Wait until what was asked for is shown: two frames."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def text(self, place: str) -> str:
        """Return the text of an element by its id."""
        return str(self.run(f"document.getElementById('{place}').textContent"))

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            code = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key]}
            text = {"text": "\r"} if key == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **code)
        self.settled()

    def mouse(self, *points: tuple[float, float], drop: bool = True) -> None:
        """Drag from the first point over the others."""
        for at, (x, y) in enumerate(points):
            kind = "mouseMoved" if at else "mousePressed"
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        if drop:
            x, y = points[-1]
            self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)
        self.settled()

    def touch(self, *points: tuple[float, float]) -> None:
        """Drag a finger from the first point over the others."""
        for at, (x, y) in enumerate(points):
            kind = "touchMove" if at else "touchStart"
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.settled()

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what the page looks like."""
        told = self.call("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        path.write_bytes(base64.b64decode(told["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._in, 1 << 16)
            assert more, "the browser ended"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        told = json.loads(line)
        if told.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(told["params"]))
        if told.get("method") == "Network.requestWillBeSent":
            self.requests.append(told["params"]["request"]["url"])
        return dict(told)
