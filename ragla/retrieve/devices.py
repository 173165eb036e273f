"""What a setting of devices means, and whether this machine has them."""

from __future__ import annotations

from collections.abc import Sequence

from ragla.errors import RaglaError, UsageError
from ragla.memory import out_of_memory

AUTO = "auto"
_FORMS = "use auto, cpu, cuda, cuda:1, mps, or several: [cuda:0, cuda:1]"


def device_names(setting: str | Sequence[str]) -> tuple[str, ...]:
    """The devices of a setting, a name may be given more than once; none for ``auto``.

    Raises UsageError for a list without a device, and for ``auto`` among others.
    """
    given = setting.split(",") if isinstance(setting, str) else setting
    names = tuple(name.strip() for name in given)
    if names == (AUTO,):
        return ()
    if not names or "" in names or AUTO in names:
        raise UsageError(f"retrieve.device: {', '.join(names) or 'an empty list'} names no devices", _FORMS)
    return names


def check_devices(names: Sequence[str]) -> None:
    """Raises UsageError for a device that there is none of, RaglaError for one whose memory is full."""
    import torch

    for name in dict.fromkeys(names):
        try:
            device = torch.device(name)
        except RuntimeError:
            device = None
        if device is None or device.type == "meta":
            raise UsageError(f"retrieve.device: no such device {name!r}", _FORMS)
        try:
            torch.empty(1, device=device)
        except Exception as error:  # every kind of device says in its own way that it is not there
            if out_of_memory(error):
                raise RaglaError(
                    f"retrieve.device: the memory of {name} is full", "free it, or use --device cpu"
                ) from error
            raise UsageError(
                f"retrieve.device: this machine offers no {name}", f"it offers {', '.join(_offered())}"
            ) from error


def _offered() -> list[str]:
    """The devices of this machine, as torch calls them."""
    import torch

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return ["cpu"]
    count = torch.accelerator.device_count()
    return ["cpu", *(f"{accelerator.type}:{number}" for number in range(count))]
