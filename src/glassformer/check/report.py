"""What a check found: verdicts with evidence and fix, in English and in Chinese."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from glassformer.check.mistakes import MISTAKES, Words

Language = Literal["en", "zh"]
Status = Literal["right", "wrong", "note", "unknown"]

_SIGNS = {"right": "✓", "wrong": "✗", "note": "·", "unknown": "?"}
_HEADINGS = {
    "how": Words("called as", "调用方式"),
    "evidence": Words("seen", "证据"),
    "fix": Words("fix", "改法"),
    "good": Words("No mistake found.", "没有发现错误。"),
    "one": Words("1 mistake found.", "发现 1 处错误。"),
    "many": Words("{} mistakes found.", "发现 {} 处错误。"),
    "unfinished": Words("not everything could be checked", "有些地方没能检查"),
}


@dataclass(frozen=True)
class Verdict:
    """One thing that was looked at. `code` names the mistake in `MISTAKES` that was looked for."""

    code: str
    status: Status
    evidence: Words

    def title(self, language: Language) -> str:
        mistake = MISTAKES[self.code]
        return (mistake.wrong if self.status == "wrong" else mistake.right).of(language)


@dataclass
class Report:
    """Everything found out about one module; `ok` if no mistake was found and it could be called."""

    name: str
    kind: str
    called: str = ""
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def mistakes(self) -> list[str]:
        """Codes of the mistakes found."""
        return list(dict.fromkeys(v.code for v in self.verdicts if v.status == "wrong"))

    @property
    def ok(self) -> bool:
        return not self.mistakes and any(v.status == "right" for v in self.verdicts)

    def add(self, code: str, status: Status, en: str = "", zh: str = "") -> None:
        verdict = Verdict(code, status, Words(en, zh))
        if verdict not in self.verdicts:
            self.verdicts.append(verdict)

    def status(self, code: str) -> str:
        """How the last look at a mistake ended; empty if nobody looked."""
        return next((v.status for v in reversed(self.verdicts) if v.code == code), "")

    def text(self, language: Language = "en") -> str:
        """The report for people, mistakes first."""
        head = {key: words.of(language) for key, words in _HEADINGS.items()}
        lines = [f"{self.name} ({KINDS[self.kind].of(language)})"]
        if self.called:
            lines.append(f"  {head['how']}: {self.called}")
        for status in ("wrong", "unknown", "note", "right"):
            for verdict in self.verdicts:
                if verdict.status == status:
                    lines += _lines(verdict, language, head)
        lines.append(self._summary(head))
        return "\n".join(lines)

    def _summary(self, head: dict[str, str]) -> str:
        count = len(self.mistakes)
        if count:
            return head["one"] if count == 1 else head["many"].format(count)
        return head["good"] if self.ok else head["unfinished"]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "called": self.called, "ok": self.ok} | {
            "mistakes": self.mistakes,
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Report:
        verdicts = [Verdict(v["code"], v["status"], Words(**v["evidence"])) for v in found["verdicts"]]
        return cls(found["name"], found["kind"], found["called"], verdicts)


def _lines(verdict: Verdict, language: Language, head: dict[str, str]) -> list[str]:
    evidence = verdict.evidence.of(language)
    first = f"  {_SIGNS[verdict.status]} {verdict.title(language)}"
    if verdict.status != "wrong":
        return [first + (f" ({evidence})" if evidence else "")]
    fix = MISTAKES[verdict.code].fix.of(language)
    return [first, f"      {head['evidence']}: {evidence}", f"      {head['fix']}: {fix}"]


KINDS = {
    "attention": Words("attention", "注意力"),
    "positions": Words("positional encoding", "位置编码"),
    "mask": Words("function that makes masks", "生成掩码的函数"),
    "layer": Words("encoder or decoder layers", "编码器或解码器层"),
    "transformer": Words("whole model", "完整模型"),
    "loss": Words("loss", "损失函数"),
    "unknown": Words("not recognised", "未能识别"),
}
