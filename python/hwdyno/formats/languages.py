"""The words that heads of tables use in other languages, as English has them."""

from __future__ import annotations

import re

_WORDS: dict[str, tuple[str, ...]] = {
    "block size": ("块大小", "ブロックサイズ", "블록 크기", "Blockgröße", "размер блока"),
    "queue depth": ("队列深度", "キュー深度", "큐 깊이", "Warteschlangentiefe", "глубина очереди"),
    "standard deviation": ("标准差", "標準偏差", "표준편차", "Standardabweichung", "écart type"),
    "message": ("消息",),
    "size": ("大小",),
    "latency": (
        "延迟", "时延", "延时", "レイテンシ", "遅延", "지연 시간", "지연", "Latenz", "latence", "latencia", "задержка",
    ),
    "bandwidth": ("带宽", "頻寬", "帯域幅", "帯域", "대역폭", "Bandbreite", "bande passante", "ancho de banda"),
    "throughput": ("吞吐量", "吞吐", "スループット", "처리량", "Durchsatz", "débit", "пропускная способность"),
    "speed": ("速度", "速率", "속도", "Geschwindigkeit", "скорость"),
    "average": ("平均", "평균", "Mittelwert", "moyenne", "среднее", "средняя"),
    "max": ("最大", "최대", "максимум"),
    "min": ("最小", "최소", "минимум"),
    "execution time": ("执行时间", "実行時間", "실행 시간", "Laufzeit"),
    "threads": ("线程数", "线程", "スレッド数", "スレッド", "스레드"),
    "workload": ("工作负载", "ワークロード", "워크로드"),
    "file system": ("文件系统", "ファイルシステム", "파일시스템", "Dateisystem"),
    "operation": ("操作", "연산"),
    "sequential": ("顺序", "順序", "シーケンシャル", "순차", "sequentiell", "séquentielle"),
    "random": ("随机", "隨機", "ランダム", "랜덤", "무작위", "zufällig", "aléatoire"),
    "read": ("读取", "读", "読み込み", "読み取り", "讀取", "읽기", "Lesen", "lecture", "чтение"),
    "write": ("写入", "写", "書き込み", "寫入", "쓰기", "Schreiben", "écriture", "запись"),
}  # fmt: skip
_ENGLISH = {word.lower(): english for english, words in _WORDS.items() for word in words}
_ANY = re.compile("|".join(map(re.escape, sorted(_ENGLISH, key=len, reverse=True))), re.IGNORECASE)


def in_english(text: str) -> str:
    """The text with the words of other languages that are known here in English."""
    if text.isascii() and not _ANY.search(text):
        return text
    return " ".join(_ANY.sub(lambda match: f" {_ENGLISH[match[0].lower()]} ", text).split())
