"""Run the demo and keep what it printed as a picture, docs/demo.svg, for the README.

python scripts/record_demo.py
"""

import re
import sys
from pathlib import Path

from rich.console import Console

from r3_lite.demo import run

TARGET = Path(__file__).parents[1] / "docs" / "demo.svg"


def main() -> int:
    """Record the demo and return its exit code; a demo that failed is not kept."""
    console = Console(record=True, width=112, force_terminal=True, markup=False, highlight=False, emoji=False)
    code = run(console)
    if code == 0:
        svg = console.export_svg(title="make demo", unique_id="demo")
        # The picture shall not load fonts from elsewhere: it names the usual ones.
        svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", "ui-monospace")
        TARGET.write_text(svg, encoding="utf-8")
        print(f"{TARGET.name}: {len(svg):,} characters")
    return code


if __name__ == "__main__":
    sys.exit(main())
