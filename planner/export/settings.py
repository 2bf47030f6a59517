"""``--set key=value``: everything an export can be told beyond its flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from planner.domain.errors import InputError, Issue, did_you_mean
from planner.export.options import ExportOptions, RouterForm, SourceKind


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: what it does, and how its text changes the options (ValueError: the text is no legal value)."""

    help: str
    apply: Callable[[ExportOptions, str], ExportOptions]


def _source(options: ExportOptions, **changes: object) -> ExportOptions:
    return replace(options, model_source=replace(options.model_source, **changes))  # type: ignore[arg-type]


def _images(options: ExportOptions, **changes: str) -> ExportOptions:
    return replace(options, images=replace(options.images, **changes))


def _flag(text: str) -> bool:
    values = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in values:
        msg = "true or false"
        raise ValueError(msg)
    return values[text.lower()]


def _gateway(options: ExportOptions, text: str) -> ExportOptions:
    namespace, _, name = text.rpartition("/")
    if not name:
        msg = "NAME or NAMESPACE/NAME"
        raise ValueError(msg)
    return replace(options, gateway=name, gateway_namespace=namespace or None)


def _minutes(options: ExportOptions, text: str) -> ExportOptions:
    minutes = int(text) if text.isdigit() else 0
    if minutes < 1:
        msg = "a whole number of minutes, at least 1"
        raise ValueError(msg)
    return replace(options, startup_minutes=minutes)


def _text(text: str) -> str:
    if not text:
        msg = "some text"
        raise ValueError(msg)
    return text


SETTINGS: dict[str, Setting] = {
    "model.source": Setting("hub, pvc or oci", lambda o, v: _source(o, kind=SourceKind(v))),
    "model.secret": Setting("Secret with the hub token", lambda o, v: _source(o, secret=_text(v))),
    "model.secret-key": Setting("its key", lambda o, v: _source(o, secret_key=_text(v))),
    "model.claim": Setting("PersistentVolumeClaim", lambda o, v: _source(o, claim=_text(v))),
    "model.path": Setting("folder of the model in the volume", lambda o, v: _source(o, path=v.strip("/"))),
    "model.reference": Setting("OCI artifact of the model", lambda o, v: _source(o, reference=_text(v))),
    "image.engine": Setting("engine image", lambda o, v: _images(o, engine=v)),
    "image.sidecar": Setting("routing sidecar image", lambda o, v: _images(o, sidecar=v)),
    "image.router": Setting("endpoint picker image", lambda o, v: _images(o, router=v)),
    "router": Setting("raw, helm or none", lambda o, v: replace(o, router=RouterForm(v))),
    "gateway": Setting("Gateway of the HTTPRoute, NAME or NAMESPACE/NAME", _gateway),
    "istio": Setting("the Gateway is Istio", lambda o, v: replace(o, istio=_flag(v))),
    "monitoring": Setting("write PodMonitors", lambda o, v: replace(o, monitoring=_flag(v))),
    "spare-groups": Setting(
        "GPUs of one more group are free: rollouts may surge", lambda o, v: replace(o, spare_groups=_flag(v))
    ),
    "startup-minutes": Setting("patience of the startup probe", _minutes),
    "disaggregated-set": Setting(
        "false writes one LeaderWorkerSet per role", lambda o, v: replace(o, disaggregated_set=_flag(v))
    ),
}
OBJECTIVE = "objective."


def apply_settings(options: ExportOptions, assignments: Iterable[str]) -> ExportOptions:
    """`options` with every ``key=value`` of `assignments`.

    Raises InputError ``export.setting_malformed``, ``export.setting_unknown``, ``export.setting_value``.
    """
    issues: list[Issue] = []
    for text in assignments:
        key, equals, value = text.partition("=")
        setting = SETTINGS.get(key)
        if not equals:
            issues.append(
                _issue("setting_malformed", text, "settings are written KEY=VALUE", f"--set {text}=VALUE")
            )
        elif key.startswith(OBJECTIVE) and key != OBJECTIVE:
            if not value.removeprefix("-").isdigit():
                issues.append(
                    _issue("setting_value", text, "a priority is a whole number", f"--set {key}=10")
                )
            else:
                objectives = {**options.objectives, key.removeprefix(OBJECTIVE): int(value)}
                options = replace(options, objectives=objectives)
        elif setting is None:
            known = [*SETTINGS, f"{OBJECTIVE}NAME"]
            issues.append(_issue("setting_unknown", text, "no such setting", did_you_mean(key, known)))
        else:
            try:
                options = setting.apply(options, value)
            except ValueError:
                issues.append(
                    _issue("setting_value", text, f"{key} takes: {setting.help}", f"--set {key}=...")
                )
    source = options.model_source
    if source.kind is SourceKind.OCI and not source.reference:
        issues.append(
            _issue(
                "setting_value",
                "model.source=oci",
                "an artifact is mounted by its reference",
                "--set model.reference=registry/model:tag",
            )
        )
    if issues:
        raise InputError(*issues)
    return options


def _issue(code: str, text: str, why: str, fix: str) -> Issue:
    return Issue(code=f"export.{code}", what=f"'{text}'", why=why, fix=fix, where="--set")
