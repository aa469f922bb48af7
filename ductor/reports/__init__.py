"""Reports: tables of what runs have done, exported exactly, and pictures of them.

table = await client.report("failures", definition="order")    # a ReportTable
write_csv(table, Path("failures.csv"))
write_parquet(table, Path("failures.parquet"))                  # with the extra `reports`
Path("failures.svg").write_text(failures_svg(await client.step_failures(definition="order")))
timeline_svg(await read_timeline(client, run_id))
"""

from ductor.reports.collecting import REPORTS, ReportName
from ductor.reports.csv_export import csv_lines, write_csv
from ductor.reports.durations_picture import durations_svg
from ductor.reports.errors import EmptyPictureError, MissingExtraError, MissingFontError, ReportFileError
from ductor.reports.failures_picture import failures_svg
from ductor.reports.funnel_picture import funnel_svg, read_funnel_svg
from ductor.reports.parquet_export import write_parquet
from ductor.reports.png import png_of
from ductor.reports.table import Column, ReportTable
from ductor.reports.throughput_picture import throughput_svg
from ductor.reports.timeline import Timeline, read_timeline, timeline_of
from ductor.reports.timeline_picture import timeline_svg

__all__ = [
    "REPORTS",
    "Column",
    "EmptyPictureError",
    "MissingExtraError",
    "MissingFontError",
    "ReportFileError",
    "ReportName",
    "ReportTable",
    "Timeline",
    "csv_lines",
    "durations_svg",
    "failures_svg",
    "funnel_svg",
    "png_of",
    "read_funnel_svg",
    "read_timeline",
    "throughput_svg",
    "timeline_of",
    "timeline_svg",
    "write_csv",
    "write_parquet",
]
