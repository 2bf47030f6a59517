"""Themes, and the colours and markers that tell groups apart: never by colour alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from textual.theme import Theme

MARKERS: Final = ("●", "■", "▲", "◆", "✚", "○", "□", "△")
ASCII_MARKERS: Final = ("o", "#", "^", "*", "+", "x", "%", "@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Colours of a theme's charts, as Rich styles. `series` repeat when there are more groups; markers go on."""

    series: tuple[str, ...]
    cloud: tuple[str, ...]
    cursor: str
    target: str
    edge: str
    good: str
    bad: str
    muted: str
    heat: tuple[str, ...]  # backgrounds from calm to hot, each with readable text
    markers: tuple[str, ...] = MARKERS

    def style(self, group: int) -> str:
        """Style of group `group`."""
        return self.series[group % len(self.series)]

    def cloud_style(self, group: int) -> str:
        """Paler style of the same group's dominated points."""
        return self.cloud[group % len(self.cloud)]

    def marker(self, group: int) -> str:
        """Marker of group `group`."""
        return self.markers[group % len(self.markers)]


# Okabe and Ito's colours, which people with colour blindness can tell apart; darker on a light background.
_DARK_SERIES: Final = ("#56B4E9", "#E69F00", "#2FBF8F", "#CC79A7", "#F0E442", "#E5673A", "#B0B7C3", "#8C9EFF")
_LIGHT_SERIES: Final = (
    "#0067A5",
    "#9C5C00",
    "#00704F",
    "#95487A",
    "#6B6200",
    "#B34700",
    "#4A5260",
    "#3B4BA8",
)

DARK: Final = "wideplan-dark"
LIGHT: Final = "wideplan-light"
CONTRAST: Final = "high-contrast"
PLAIN: Final = "no-colour"

PALETTES: Final = {
    DARK: Palette(
        series=tuple(f"bold {c}" for c in _DARK_SERIES),
        cloud=("#35607A", "#75591B", "#24614D", "#694458", "#6E6A2E", "#74402B", "#565B66", "#4B5482"),
        cursor="bold #101418 on #FFFFFF",
        target="#E5673A",
        edge="#9AA5B1",
        good="#2FBF8F",
        bad="#FF7A5C",
        muted="#8B95A3",
        heat=("white on #17324A", "white on #1F5673", "white on #2A7F8E", "black on #D9B44A", "black on #E8853D",
              "white on #B3261E"),
    ),
    LIGHT: Palette(
        series=tuple(f"bold {c}" for c in _LIGHT_SERIES),
        cloud=("#9DBFD6", "#D3BB95", "#97C7B7", "#CDAEC1", "#C9C48F", "#DDB497", "#B5BAC2", "#ABB2DB"),
        cursor="bold #FFFFFF on #101418",
        target="#B34700",
        edge="#5C6672",
        good="#00704F",
        bad="#B3261E",
        muted="#5C6672",
        heat=("black on #E6EEF5", "black on #C3DCEB", "black on #93C6D6", "black on #F0D48A", "black on #F0A35E",
              "white on #A61C14"),
    ),
    CONTRAST: Palette(
        series=("bold #00E5FF", "bold #FFD400", "bold #00FF85", "bold #FF8CFF", "bold #FFFFFF", "bold #FF9A3C"),
        cloud=("#00A3B5", "#B59700", "#00B35E", "#B562B5", "#B5B5B5", "#B56D2B"),
        cursor="bold #000000 on #FFFF00",
        target="bold #FF5C5C",
        edge="#FFFFFF",
        good="bold #00FF85",
        bad="bold #FF5C5C",
        muted="#D0D0D0",
        heat=("bold white on #000000", "bold white on #003B6F", "bold white on #00629B", "bold black on #FFD400",
              "bold black on #FF9A3C", "bold white on #C00000"),
    ),
    PLAIN: Palette(
        series=("bold",),
        cloud=("dim",),
        cursor="bold reverse",
        target="bold",
        edge="none",
        good="bold",
        bad="bold underline",
        muted="dim",
        heat=("none", "none", "none", "bold", "bold underline", "bold reverse"),
        markers=ASCII_MARKERS,
    ),
}  # fmt: skip

THEMES: Final = (
    Theme(name=DARK, primary="#56B4E9", secondary="#7FA7C0", accent="#E69F00", foreground="#E6EAF0",
          background="#0F1419", surface="#161C23", panel="#1D252E", success="#2FBF8F", warning="#E69F00",
          error="#FF7A5C", dark=True,
          variables={"border-blurred": "#3A4654", "footer-key-foreground": "#56B4E9",
                     "block-cursor-background": "#2B5C7E", "block-cursor-foreground": "#FFFFFF"}),
    Theme(name=LIGHT, primary="#0067A5", secondary="#3F6A86", accent="#9C5C00", foreground="#14181D",
          background="#FBFBF9", surface="#F2F3F1", panel="#E6E9EA", success="#00704F", warning="#9C5C00",
          error="#B3261E", dark=False,
          variables={"border-blurred": "#A9B2BA", "footer-key-foreground": "#0067A5",
                     "block-cursor-background": "#0067A5", "block-cursor-foreground": "#FFFFFF"}),
    Theme(name=CONTRAST, primary="#00E5FF", secondary="#FFFFFF", accent="#FFD400", foreground="#FFFFFF",
          background="#000000", surface="#000000", panel="#000000", success="#00FF85", warning="#FFD400",
          error="#FF5C5C", dark=True,
          variables={"border-blurred": "#FFFFFF", "footer-key-foreground": "#FFD400",
                     "block-cursor-background": "#FFD400", "block-cursor-foreground": "#000000"}),
    Theme(name=PLAIN, primary="ansi_default", secondary="ansi_default", accent="ansi_default",
          foreground="ansi_default", background="ansi_default", surface="ansi_default", panel="ansi_default",
          success="ansi_default", warning="ansi_default", error="ansi_default", dark=True,
          variables={"border-blurred": "ansi_default", "footer-key-foreground": "ansi_default",
                     "block-cursor-background": "ansi_default", "block-cursor-foreground": "ansi_default",
                     "block-cursor-text-style": "reverse"}),
)  # fmt: skip
