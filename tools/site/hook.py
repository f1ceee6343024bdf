"""Make the site from what a clone has: README.md is its first page, files outside of docs/ are copied.

Links of the documents are those of a clone, so that they work there, too. A link to a file outside of docs/
leads to a copy of it under source/; one to a folder becomes plain text.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(((?!https?:|mailto:|#)[^)\s]+)\)")


def on_config(config):
    """Read the navigation from the sections and links of docs/contents.md, with the first page in front."""
    config["nav"] = [{"Overview": "index.md"}]
    for section in re.split(r"^## ", (ROOT / "docs/contents.md").read_text(), flags=re.M)[1:]:
        title, _, text = section.partition("\n")
        links = [(name, in_clone("contents.md", target)) for name, target in LINK.findall(text)]
        config["nav"].append({title.strip(): [{name: in_site(path)} for name, path in links if path.endswith(".md")]})
    return config


def on_files(files, config):
    """Add README.md as the first page, a list of the schemas, and copies of the files that are linked to."""
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text()))
    schemas = sorted(path.name for path in (ROOT / "docs/schema").glob("*.json"))
    listed = "".join(f"- [{name}]({name})\n" for name in schemas)
    files.append(File.generated(config, "schema/index.md", content=f"# Schemas of all files\n\n{listed}"))
    for page in list(files.documentation_pages()):
        for _, target in LINK.findall(page.content_string):
            path = in_clone(page.src_uri, target)
            if (ROOT / path).is_file() and files.get_file_from_path(in_site(path)) is None:
                files.append(File.generated(config, in_site(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turn the links of a clone into those of the site."""
    return LINK.sub(lambda m: link(page.file.src_uri, m[1], m[2]), markdown)


def in_clone(page, target):
    """Return the path from the root of the clone of what a page links to."""
    folder = posixpath.dirname(page.removeprefix("source/") if page.startswith("source/") else f"docs/{page}")
    if page == "index.md":
        folder = ""
    return posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))


def in_site(path):
    """Return where the site has a file of the clone."""
    if path == "README.md":
        return "index.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}"


def link(page, text, target):
    """Return one link as the site has it."""
    path, anchor = in_clone(page, target), "".join(target.partition("#")[1:])
    if path == "docs/schema":
        new = "schema/index.md"
    elif (ROOT / path).is_dir():
        return text
    else:
        new = in_site(path)
    return f"[{text}]({posixpath.relpath(new, posixpath.dirname(page) or '.')}{anchor})"
