# Plain text out of the formats that Debian documentation packages ship.
# Start at man_page(), html_page() or austen_novels(); each takes bytes or a path and returns str.
import html.parser
import re
import struct
import textwrap
import zlib

# roff escapes that stand for one character; every other \(xx and \[xx] is dropped.
ROFF_CHARACTERS = {
    "aq": "'", "dq": '"', "en": "–", "em": "—", "bu": "*", "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "co": "©",
    "ha": "^", "ti": "~", "rs": "\\", "->": "->", "<-": "<-", ">=": ">=", "<=": "<=", "mu": "x", "Fo": "«", "Fc": "»",
}
# Sections that only list translators and their mail addresses.
TRANSLATOR_SECTIONS = {"ÜBERSETZUNG", "TRADUCTION"}
HTML_BLOCKS = {"p", "div", "li", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6", "tr", "table", "ul", "ol", "dl", "br"}
HTML_SKIPPED = {"script", "style", "head"}


def _without_roff_escapes(line):
    line = re.sub(r'\\".*', "", line)
    line = re.sub(r"\\f(\(..|\[[^]]*\]|.)|\\s[-+]?\d|\\[mM]\[[^]]*\]|\\v'[^']*'|\\h'[^']*'|\\w'[^']*'", "", line)
    line = re.sub(r"\\\((..)|\\\[([^]]*)\]", lambda m: ROFF_CHARACTERS.get(m.group(1) or m.group(2), ""), line)
    line = line.replace("\\-", "-").replace("\\e", "\\").replace("\\~", " ").replace("\\ ", " ").replace("\\.", ".")
    return re.sub(r"\\[&,/|^%:cdtuz)]", "", line).replace("\\'", "'").replace("\\`", "`")


def _macro_arguments(rest):
    return [quoted.replace('""', '"') if quoted or not bare else bare
            for quoted, bare in re.findall(r'"((?:[^"]|"")*)"?|(\S+)', rest)]


def man_page(source):
    """Text of a page written with the man macros; "" for a page in another macro set (mdoc) or a mere link (.so)."""
    if re.search(r"^\.(Dd|so)\b", source, re.M):
        return ""
    out, in_table, skipped_section = [], False, False
    for line in source.splitlines():
        if line.startswith((".\\\"", "'\\\"", "'")):
            continue
        macro = re.match(r"\.\s*(\w+)\s*(.*)", line)
        name, rest = (macro.group(1), _without_roff_escapes(macro.group(2)).strip()) if macro else ("", "")
        if name in ("SH", "SS"):
            title = " ".join(_macro_arguments(rest))
            skipped_section = title in TRANSLATOR_SECTIONS
            if not skipped_section:
                out += ["", title]
        elif skipped_section:
            continue
        elif name in ("TS", "TE"):
            in_table = name == "TS"
        elif in_table:
            continue
        elif name in ("PP", "P", "LP", "TP", "TQ", "sp", "HP"):
            out.append("")
        elif name == "IP":
            out += [""] + _macro_arguments(rest)[:1]
        elif name in ("B", "I", "SM", "SB"):
            out.append(" ".join(_macro_arguments(rest)))
        elif name in ("BR", "RB", "BI", "IB", "IR", "RI"):
            out.append("".join(_macro_arguments(rest)))
        elif name in ("UR", "MT"):
            out.append("<" + rest + ">")
        elif not line.startswith("."):
            out.append(_without_roff_escapes(line).rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip() + "\n"


class _HtmlText(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.blocks, self.current, self.skipping, self.verbatim = [], [], 0, 0

    def _close_block(self):
        text = "".join(self.current)
        self.current = []
        if self.verbatim:
            text = text.strip("\n")
        else:
            text = textwrap.fill(" ".join(text.split()), 79, break_long_words=False, break_on_hyphens=False)
        if text.strip():
            self.blocks.append(text)

    def handle_starttag(self, tag, attributes):
        if tag in HTML_SKIPPED:
            self.skipping += 1
        elif tag in HTML_BLOCKS or tag == "pre":
            if not (tag == "br" and self.verbatim):
                self._close_block()
            self.verbatim += tag == "pre"

    def handle_endtag(self, tag):
        if tag in HTML_SKIPPED:
            self.skipping = max(0, self.skipping - 1)
        elif tag in HTML_BLOCKS or tag == "pre":
            self._close_block()
            self.verbatim = max(0, self.verbatim - (tag == "pre"))

    def handle_data(self, data):
        if not self.skipping:
            self.current.append(data)


def html_page(source):
    """Text of an HTML page: blocks separated by blank lines, wrapped at 79 columns, <pre> kept as it is."""
    parser = _HtmlText()
    parser.feed(source)
    parser.close()
    parser._close_block()
    return "\n\n".join(parser.blocks) + "\n"


def austen_novels(rdb_bytes):
    """The novels of the janeaustenr lazy-load database, as {title: text}.

    The file is a row of records: big-endian uncompressed length, then a zlib stream holding one serialized (XDR) R
    character vector, which is what this reads: its length, then for each line a flags word, a byte count and the bytes.
    """
    novels, at = {}, 0
    while at < len(rdb_bytes):
        stream = zlib.decompressobj()
        record = stream.decompress(rdb_bytes[at + 4:])
        at = len(rdb_bytes) - len(stream.unused_data)
        start = record.index(b"UTF-8") + 5
        kind, lines = struct.unpack_from(">ii", record, start)
        if kind & 0xFF != 16:
            raise ValueError(f"janeaustenr record at byte {at}: R type {kind & 0xFF}, expected 16 (character vector)")
        start += 8
        text = []
        for _ in range(lines):
            _, length = struct.unpack_from(">ii", record, start)
            text.append(record[start + 8:start + 8 + length].decode("utf-8"))
            start += 8 + length
        title = next(line for line in text if line.strip())
        novels[title.title()] = "\n".join(line.rstrip() for line in text).strip() + "\n"
    return novels
