"""The real program with local charts in the place of those from the internet, as a rehearsal runs it."""

import runpy
from pathlib import Path

from rehearsal import charts

charts.redirect()
runpy.run_path(str(Path(__file__).resolve().parent.parent.parent.parent / "__main__.py"), run_name="__main__")
