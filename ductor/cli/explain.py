"""`ductor explain`."""

from ductor.cli.options import DatabaseOptions, OutputOptions, RedisOptions


def explain(
    run: str,
    /,
    *,
    follow: bool = True,
    database: DatabaseOptions = DatabaseOptions(),
    redis: RedisOptions = RedisOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Tell why a run does not move, or why it ended as it did: a tree of reasons.

    Parameters
    ----------
    run
        Id of the run.
    follow
        Where other runs continue this one, explain the latest; with `--no-follow` this very one.
    """
    from ductor.actors.explain import lines
    from ductor.cli.output import print_json
    from ductor.cli.session import connected, run_async

    async def work() -> int:
        async with connected(database, output.output, redis) as client:
            explanation = await client.run(run).explain(follows=follow)
        if output.output == "table":
            print("\n".join(lines(explanation)))
        else:
            print_json(explanation)
        return 0

    return run_async(work())
