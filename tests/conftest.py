"""What every test shares: how property tests draw their examples."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.postgres_fixtures", "tests.queue_fixtures", "tests.command_fixtures"]

EXAMPLES_PER_PROPERTY = 50
EXAMPLES_PER_PROPERTY_WHILE_SEARCHING = 500

# The default draws the same examples on every run and machine; a defect that it finds is found again.
settings.register_profile(
    "ci",
    max_examples=EXAMPLES_PER_PROPERTY,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# `pytest --hypothesis-profile dev` looks for new ones, and remembers those that failed.
settings.register_profile("dev", max_examples=EXAMPLES_PER_PROPERTY_WHILE_SEARCHING, deadline=None)
settings.load_profile("ci")
