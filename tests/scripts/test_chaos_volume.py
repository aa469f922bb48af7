"""A volume for PostgreSQL can be filled to the last block and emptied again, where file systems can be mounted."""

from pathlib import Path

import pytest

from scripts.chaos_run.volume import BALLAST_STEP_BYTES, NoVolumeError, mounted_volume


def test_a_volume_is_full_until_it_is_released(tmp_path: Path):
    try:
        with mounted_volume(tmp_path, 64) as volume:
            before = volume.free_bytes()
            volume.fill()
            assert volume.free_bytes() < BALLAST_STEP_BYTES
            with pytest.raises(OSError, match="No space left"):
                (volume.folder / "file").write_bytes(b"x" * 100_000)
            volume.release()
            (volume.folder / "file").unlink()
            assert volume.free_bytes() == before
    except NoVolumeError as error:
        assert str(error)  # noqa: PT017 - that it says why is what is left to see
        pytest.skip(f"no file systems are mounted here: {error}")
    assert not list(tmp_path.glob("volume.img"))
