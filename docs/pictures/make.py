#!/usr/bin/env python3
"""Makes the pictures of the documentation: types commands into a real terminal (tmux), and draws what it shows as SVG.

    docs/pictures/make.py [--tune target/debug/tune] [PICTURE...]

The study is that of train.py beside this file, in a directory that is thrown away. Values are the same each time; times are
those of the machine. Needs tmux and Python 3 alone.
"""

import argparse
import html
import re
import shutil
import subprocess
import tempfile
import time
import unicodedata
from pathlib import Path

HERE = Path(__file__).resolve().parent
CELL_WIDTH, LINE_HEIGHT, FONT, MARGIN = 8.4, 18, 14, 14
BACKGROUND, FOREGROUND = "#16191d", "#d7dae0"
# The 16 colours of a terminal, in its order.
COLOURS = [
    "#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#c8ccd4",
    "#5c6370", "#ff7b86", "#b5e08f", "#ffd68a", "#7cc4ff", "#da8fef", "#6fd3df", "#ffffff",
]
PLAIN = {"fg": None, "bg": None, "bold": False, "dim": False, "italic": False, "underline": False, "reverse": False}
FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse"}
CLEARED = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 39: ("fg",), 49: ("bg",)}


def palette(number):
    """The colour of this number among 256."""
    if number < 16:
        return COLOURS[number]
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    level = [0, 95, 135, 175, 215, 255]
    number -= 16
    return f"#{level[number // 36]:02x}{level[number // 6 % 6]:02x}{level[number % 6]:02x}"


def styled(style, codes):
    """A style after a sequence that selects how text looks (ECMA-48, SGR)."""
    style, codes = dict(style), [int(code or 0) for code in codes]
    while codes:
        code = codes.pop(0)
        if code == 0:
            style = dict(PLAIN)
        elif code in FLAGS:
            style[FLAGS[code]] = True
        elif code in CLEARED:
            style.update({name: PLAIN[name] for name in CLEARED[code]})
        elif code in (38, 48):
            kind = codes.pop(0)
            if kind == 5:
                colour = palette(codes.pop(0))
            else:
                colour, codes = "#" + "".join(f"{c:02x}" for c in codes[:3]), codes[3:]
            style["fg" if code == 38 else "bg"] = colour
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style["fg"] = COLOURS[code - 30 if code < 90 else code - 82]
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style["bg"] = COLOURS[code - 40 if code < 100 else code - 92]
    return style


def pieces(line, style):
    """The parts of a line that look alike, as (column, text, style); and the style behind it."""
    found, column = [], 0
    for part in re.split(r"(\x1b\[[0-9;:]*m)", line):
        if part.startswith("\x1b["):
            style = styled(style, re.split("[;:]", part[2:-1]))
        elif part:
            found.append((column, part, style))
            column += width(part)
    return found, style


def width(text):
    """How many cells of a terminal a text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def drawn(column, row, text, style):
    """A part of a line as SVG: its background, and the text where there is some."""
    fg, bg = style["fg"] or FOREGROUND, style["bg"]
    if style["reverse"]:
        fg, bg = bg or BACKGROUND, fg
    x, y, long = MARGIN + column * CELL_WIDTH, MARGIN + row * LINE_HEIGHT, width(text) * CELL_WIDTH
    out = ""
    if bg:
        out += f'<rect x="{x:.1f}" y="{y}" width="{long:.1f}" height="{LINE_HEIGHT}" fill="{bg}"/>\n'
    if text.strip():
        look = f' fill="{fg}"' if fg != FOREGROUND else ""
        look += ' font-weight="bold"' * style["bold"] + ' font-style="italic"' * style["italic"]
        look += ' text-decoration="underline"' * style["underline"] + ' opacity="0.6"' * style["dim"]
        # A text starts where it is seen, and is as long as in the terminal, whatever font there is.
        seen = text.strip(" ")
        x += (len(text) - len(text.lstrip(" "))) * CELL_WIDTH
        out += (
            f'<text x="{x:.1f}" y="{y + LINE_HEIGHT - 5}" textLength="{width(seen) * CELL_WIDTH:.1f}"{look}>'
            f"{html.escape(seen)}</text>\n"
        )
    return out


def svg(screen, title, columns):
    """A terminal's screen, with the sequences that colour it, as a picture."""
    lines = [line.rstrip() for line in screen.rstrip().split("\n")]
    body, style = "", dict(PLAIN)
    for row, line in enumerate(lines):
        found, style = pieces(line, style)
        body += "".join(drawn(column, row, text, look) for column, text, look in found)
    wide, high = columns * CELL_WIDTH + 2 * MARGIN, len(lines) * LINE_HEIGHT + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high}" viewBox="0 0 {wide:.0f} {high}" role="img">\n'
        f"<title>{html.escape(title)}</title>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>\n'
        f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{FONT}" '
        f'fill="{FOREGROUND}" xml:space="preserve">\n{body}</g>\n</svg>\n'
    )


class Terminal:
    """A terminal of so many columns and rows, with a shell in a project of its own."""

    def __init__(self, home, project, columns, rows):
        self.socket = str(home / f"tmux-{columns}-{rows}-{time.monotonic_ns()}")
        environment = ["env", "-i", f"HOME={home}", f"PATH={home}/bin:/usr/bin:/bin", "LANG=C.UTF-8", "PS1=$ "]
        shell = [*environment, "TERM=screen-256color", "bash", "--norc", "--noprofile"]
        size = ["-x", str(columns), "-y", str(rows)]
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", "picture", *size, "-c", str(project), *shell)
        self.wait(r"^\$ ?$")

    def tmux(self, *arguments):
        done = subprocess.run(["tmux", "-S", self.socket, *arguments], check=True, capture_output=True, text=True)
        return done.stdout

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", "-t", "picture", *options)

    def type(self, line):
        self.tmux("send-keys", "-t", "picture", "-l", line)
        # Until it stands there, the prompt would be taken for that of a command that is done.
        self.wait(re.escape(line[-8:]) + r"\s*\Z")
        self.tmux("send-keys", "-t", "picture", "Enter")

    def wait(self, pattern, seconds=120):
        """Waits until a line of the screen matches, the last of which is then still."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.screen().rstrip("\n"), re.MULTILINE):
            if time.monotonic() > end:
                raise SystemExit(f"waited for {pattern!r}; the screen:\n{self.screen()}")
            time.sleep(0.05)

    def close(self):
        self.tmux("kill-server")


# At the prompt again, all commands done.
DONE = r"^\$ ?\Z"
RUN = "tune train --trials 60 --timeout 1h"


def pictures():
    """Each picture: what it shows, columns and rows, what the study has come to before, what is typed, what is waited for."""
    init = 'tune init --script "python3 train.py --lr {lr} --hidden {hidden} --dropout {dropout}"'
    return {
        "init": ("tune init makes a task file of a command line", (104, 16), None, [init], DONE),
        "run": ("A search as its terminal shows it", (118, 24), None, [RUN], r"\b2[0-9]/60 \|"),
        "status": ("tune status from a second terminal", (104, 16), "running", ["tune status train"], DONE),
        "trials": ("The best trials, and what matters", (104, 26), "ended", ["tune trials --top 8", "tune importance"], DONE),
        "failures": ("Why trials failed", (104, 14), "ended", ["tune failures"], DONE),
    }


def draw(home, project, name):
    title, (columns, rows), before, lines, until = pictures()[name]
    run = Terminal(home, project, 118, 24) if before else None
    if run:
        run.type(RUN)
        run.wait(DONE if before == "ended" else r"\b[34][0-9]/60 \|")
    terminal = Terminal(home, project, columns, rows)
    for line in lines:
        terminal.type(line)
        terminal.wait(DONE if line != lines[-1] else until)
    # The prompt that waits is no part of the picture, nor is where the project was.
    screen = terminal.screen("-e").rstrip().removesuffix("\n$").replace(str(project), "/home/me/moons")
    (HERE / f"{name}.svg").write_text(svg(screen, title, columns))
    # A run goes on without its terminal.
    subprocess.run([home / "bin/tune", "-C", project, "stop", "train", "--now"], capture_output=True, check=False)
    for each in [terminal, run]:
        if each:
            each.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tune", default="target/debug/tune", help="the program")
    parser.add_argument("pictures", nargs="*", metavar="PICTURE", help=", ".join(pictures()))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        home = Path(directory)
        for part in ["bin", "project"]:
            (home / part).mkdir()
        (home / "bin/tune").symlink_to(Path(asked.tune).resolve())
        for name in asked.pictures or pictures():
            project = home / "project"
            shutil.rmtree(project)
            project.mkdir()
            shutil.copy(HERE / "train.py", project)
            if name != "init":
                shutil.copytree(HERE / "configs", project / "configs")
            draw(home, project, name)
            print(HERE / f"{name}.svg")


if __name__ == "__main__":
    main()
