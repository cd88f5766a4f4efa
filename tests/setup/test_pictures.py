"""The pictures of the documentation: how a terminal's screen is drawn, and that pages show those that are there."""

import importlib.util
import unittest
from pathlib import Path
from xml.etree import ElementTree

DOCS = Path(__file__).resolve().parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("pictures", DOCS / "pictures" / "make.py")
make = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make)
SVG = "{http://www.w3.org/2000/svg}"


def texts(screen):
    drawn = ElementTree.fromstring(make.svg(screen, "a <title>", 20))
    return [(text.text, text.attrib) for text in drawn.iter(f"{SVG}text")]


class Drawing(unittest.TestCase):
    def test_parts_of_a_line_stand_where_the_terminal_has_them(self):
        (first, at), (second, behind) = texts("ab\x1b[1;31mc < d\x1b[0m")
        self.assertEqual((first, second), ("ab", "c < d"))
        self.assertAlmostEqual(float(behind["x"]) - float(at["x"]), 2 * make.CELL_WIDTH, places=1)
        self.assertEqual((behind["fill"], behind["font-weight"]), (make.COLOURS[1], "bold"))
        self.assertNotIn("fill", at)

    def test_colours_of_each_kind_are_known_and_end(self):
        style = make.styled(make.PLAIN, ["38", "5", "196", "48", "2", "1", "2", "255", "7"])
        self.assertEqual((style["fg"], style["bg"], style["reverse"]), ("#ff0000", "#0102ff", True))
        self.assertEqual(make.styled(style, ["39", "49", "27"]), make.PLAIN)
        self.assertEqual(make.styled(style, [""]), make.PLAIN)
        self.assertEqual(make.styled(make.PLAIN, ["96"])["fg"], make.COLOURS[14])

    def test_a_style_lasts_over_lines_and_wide_characters_take_two_cells(self):
        found = texts("\x1b[32ma\nb\x1b[m\u4e2dc")
        self.assertEqual([text for text, _ in found], ["a", "b", "\u4e2dc"])
        self.assertEqual(found[1][1]["fill"], make.COLOURS[2])
        self.assertEqual(make.width("\u4e2dc"), 3)


class Pages(unittest.TestCase):
    def test_every_picture_is_drawn_and_on_a_page(self):
        pages = "".join(page.read_text() for page in [*DOCS.glob("*.md"), DOCS.parent / "README.md"])
        for name in make.pictures():
            ElementTree.parse(DOCS / "pictures" / f"{name}.svg")
            self.assertIn(f"pictures/{name}.svg)", pages)


if __name__ == "__main__":
    unittest.main()
