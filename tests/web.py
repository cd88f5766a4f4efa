"""Opens each page of a folder in a browser, over its debugging protocol, and looks for what must not be there.

    web.py BROWSER FOLDER AXE|- PICTURES|- TUNE

FOLDER is a project of tune's, too: the live page of its study synthetic is opened while that goes on.
"""

import base64
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request


class Socket:
    """As much of a web socket (RFC 6455) as the debugging protocol takes."""

    def __init__(self, url):
        host, path = url.removeprefix("ws://").split("/", 1)
        name, port = host.split(":")
        self.stream = socket.create_connection((name, int(port)), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self.stream.sendall(
            f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.stream.recv(4096)
        self.buffer = self.buffer.split(b"\r\n\r\n", 1)[1]

    def take(self, count):
        while len(self.buffer) < count:
            more = self.stream.recv(1 << 16)
            if not more:
                raise EOFError("the browser has closed the connection")
            self.buffer += more
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x81, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x81, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x81, 0x80 | 127, size)
        self.stream.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def receive(self):
        message = b""
        while True:
            first, size = self.take(2)
            size &= 0x7F
            if size == 126:
                size = struct.unpack("!H", self.take(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", self.take(8))[0]
            data = self.take(size)
            if first & 0x0F in (0, 1):
                message += data
                if first & 0x80:
                    return message.decode()


class Page:
    """A tab, with what it has told."""

    def __init__(self, url):
        self.socket, self.count, self.events = Socket(url), 0, []
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("id") == self.count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def open(self, url, width, dark):
        self.events = []
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        self.call("Page.navigate", url=url)
        while self.value("document.readyState") != "complete" or self.value("location.href") != url:
            time.sleep(0.05)

    def complaints(self, url):
        """Errors in the console, and requests to anywhere but the page itself."""
        for event in self.events:
            params = event.get("params", {})
            match event["method"]:
                case "Runtime.exceptionThrown":
                    yield f"exception: {params['exceptionDetails']}"
                case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                    yield f"console: {params['args']}"
                case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                    yield f"log: {params['entry']['text']}"
                case "Network.requestWillBeSent" if not params["request"]["url"].startswith(url):
                    yield f"request: {params['request']['url']}"


OVERFLOW = """(() => {
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide <= 0) return [];
  const inside = (e) => e.closest(".scroll") && !e.matches(".scroll");
  const out = [...document.querySelectorAll("body *")].filter((e) =>
    !inside(e) && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
  return [`${wide} pixels`, ...out.slice(0, 5).map((e) => e.tagName + "." + e.getAttribute("class"))];
})()"""

# Each thing that can be used is reached by the Tab key.
REACHED = """[...document.querySelectorAll("a, button, input, summary, .scroll")]
  .filter((e) => e.offsetParent && e.tabIndex < 0).map((e) => e.outerHTML.slice(0, 80))"""

SORTED = """(() => {
  const table = document.querySelector("#trials table");
  if (!table) return [];
  const button = table.querySelectorAll("thead button")[0];
  const numbers = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[0].textContent));
  button.click();
  const up = numbers(), expected = [...up].sort((a, b) => a - b);
  button.click();
  const down = numbers();
  return JSON.stringify(up) === JSON.stringify(expected) && JSON.stringify(down) === JSON.stringify(expected.reverse())
    ? [] : [JSON.stringify([up, down])];
})()"""

BRUSHED = """(() => {
  const input = document.querySelector("#limits input");
  if (!input) return [];
  document.getElementById("limits").open = true;
  const lines = document.querySelectorAll("#parallel .wide .apart").length;
  const out = () => document.querySelectorAll("#parallel .wide .apart.out").length;
  const set = (value) => { input.value = value; input.dispatchEvent(new Event("input")); return out(); };
  const some = set(50), none = set(0);
  return lines > 0 && some > 0 && some < lines && none === 0 ? [] : [`${some} and ${none} of ${lines} lines are out`];
})()"""

# A fifth of the width of each chart fills its frame, with other numbers along it, and the whole chart comes back.
ZOOMED = """(() => {
  const wrong = [], drawn = [...document.querySelectorAll("svg[data-frame]")].filter((e) => e.getBoundingClientRect().width);
  for (const chart of drawn.filter((e) => !e.closest(".small"))) {
    const controls = chart.nextElementSibling, name = chart.querySelector("title").textContent;
    if (!controls?.matches("details.zoom")) { wrong.push(name + " has no controls"); continue; }
    const seen = () => [chart.querySelector(".ticks").innerHTML, chart.querySelector(".marks").getAttribute("transform")];
    controls.open = true;
    const before = seen(), [from, to] = controls.querySelectorAll("input");
    for (const [input, value] of [[from, 0.4], [to, 0.6]]) { input.value = value; input.dispatchEvent(new Event("input")); }
    const [ticks, move] = seen(), scale = Number(move.match(/[\\d.]+/)[0]);
    if (Math.abs(scale - 5) > 1e-6 || ticks === before[0] || !ticks.includes("<text")) wrong.push(`${name}: ${move}, ${ticks.slice(0, 200)}`);
    controls.querySelector("button").click();
    if (JSON.stringify(seen()) !== JSON.stringify(before)) wrong.push(name + " does not come back");
  }
  return wrong;
})()"""


# Milliseconds until a page and all that it draws at once is there.
OPENED = "performance.getEntriesByType('navigation')[0].loadEventEnd"

# What of a live page has not been taken anew.
KEPT = """[...document.querySelectorAll("header, main > section")].map((e) => [e.id, e.kept === true])"""


# Its parts are those that a page has that is made now.
UP_TO_DATE = """fetch(location.pathname).then((answer) => answer.text()).then((text) => {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const parts = (page) => JSON.stringify([...page.querySelectorAll("header, main > section")].map((e) => e.id));
  const tags = JSON.stringify([...known].sort());
  return parts(fresh) === parts(document) && tags === JSON.stringify(JSON.parse(fresh.body.dataset.parts).sort());
})"""


def live(page, tune, folder):
    """The live page of a study that goes on: only what has changed is taken anew, and works as before."""
    project = [tune, "-C", folder]
    server = subprocess.Popen([*project, "report", "synthetic", "--open"], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        page.open(url, 1440, False)
        page.value('document.querySelectorAll("header, main > section").forEach((e) => (e.kept = true))')
        more = ["synthetic", "--trials", "125", "--seed", "5", "--set", "task.noise=0.03", "--set", "task.step_ms=2"]
        subprocess.run([*project, *more], check=True, capture_output=True)
        until = time.monotonic() + 60
        while not (page.value(UP_TO_DATE) and "125" in page.value('document.querySelector(".tiles").textContent')):
            if time.monotonic() > until:
                return ["the page does not follow its study"]
            time.sleep(0.2)
        parts = dict(page.value(KEPT))
        wrong = list(page.complaints(url))
        right = not parts["header"] and not parts["history"] and parts["repeats"]
        wrong += [] if right else [f"kept (true) or taken anew (false): {parts}"]
        wrong += [f"{what}: {found}" for what, e in [("not sorted", SORTED), ("not brushed", BRUSHED), ("not zoomed", ZOOMED)] for found in page.value(e)]
        print(f"of the live page stayed: {', '.join(name for name, kept in parts.items() if kept)}")
        return wrong
    finally:
        server.terminate()
        server.wait()


def check(page, file, width, dark, axe, pictures, opened):
    url = file.as_uri()
    page.open(url, width, dark)
    opened[file.name] = max(opened.get(file.name, 0), page.value(OPENED))
    wrong = []
    for what, expression in [("wider than the window", OVERFLOW), ("not reached by keyboard", REACHED),
                             ("not sorted", SORTED), ("not brushed", BRUSHED), ("not zoomed", ZOOMED)]:
        wrong += [f"{what}: {found}" for found in page.value(expression) or []]
    wrong += page.complaints(url)
    if axe:
        page.value(axe + "\n;0")
        found = page.value("axe.run().then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(' | ')))")
        wrong += [f"axe: {violation}" for violation in found]
    if pictures:
        shot = page.call("Page.captureScreenshot", captureBeyondViewport=True)
        name = f"{file.stem}-{width}-{'dark' if dark else 'light'}.png"
        (pictures / name).write_bytes(base64.b64decode(shot["data"]))
    return wrong


def main():
    browser, folder, axe, pictures, tune = sys.argv[1:]
    axe = None if axe == "-" else pathlib.Path(axe).read_text()
    pictures = None if pictures == "-" else pathlib.Path(pictures)
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--remote-debugging-port=0", f"--user-data-dir={profile.name}", "about:blank"]
    process = subprocess.Popen([browser, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wrong, opened = [], {}
    try:
        port = pathlib.Path(profile.name, "DevToolsActivePort")
        until = time.monotonic() + 60
        while not (port.exists() and port.read_text().count("\n")):
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError("the browser does not come up")
            time.sleep(0.1)
        host = f"http://127.0.0.1:{port.read_text().splitlines()[0]}"
        tabs = json.load(urllib.request.urlopen(f"{host}/json"))
        page = Page(next(tab for tab in tabs if tab["type"] == "page")["webSocketDebuggerUrl"])
        for file in sorted(pathlib.Path(folder).glob("*.html")):
            for width in (360, 1440):
                for dark in (False, True):
                    found = check(page, file, width, dark, axe, pictures, opened)
                    wrong += [f"{file.name} at {width}{' dark' if dark else ''}: {what}" for what in found]
        wrong += [f"live: {what}" for what in live(page, tune, folder)]
    finally:
        process.terminate()
        process.wait()
    for name, ms in opened.items():
        print(f"{name}: {pathlib.Path(folder, name).stat().st_size / 1e6:.2f} MB, opens in {ms:.0f} ms at most")
    print("\n".join(wrong) or f"all pages hold, {'with' if axe else 'without'} axe-core")
    sys.exit(bool(wrong))


main()
