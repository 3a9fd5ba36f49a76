"""What setup.cfg cannot say: the address of the repository that a wheel is built from.

A continuous-integration run of GitHub knows it (GITHUB_REPOSITORY); elsewhere it is left out. The
README has relative links, which work in the repository; the page on PyPI gets absolute ones.
"""

import os
import re
from pathlib import Path

from setuptools import setup

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<path>(?![a-z]+:|#)[^)\s]+)\)")


def with_absolute_links(text: str, repository: str, commit: str) -> str:
    """A README whose relative images and links lead to a commit of a repository of GitHub.

    >>> with_absolute_links("![a](b.png) [c](d.md#e)", "me/mine", "1f")
    '![a](https://raw.githubusercontent.com/me/mine/1f/b.png) [c](https://github.com/me/mine/blob/1f/d.md#e)'
    """
    images = f"https://raw.githubusercontent.com/{repository}/{commit}/"
    pages = f"https://github.com/{repository}/blob/{commit}/"

    def absolute(link: re.Match[str]) -> str:
        base = images if link["image"] else pages
        return f"{link['image']}[{link['text']}]({base}{link['path']})"

    return _LINK.sub(absolute, text)


def about_the_repository() -> dict[str, object]:
    """The description and the addresses of a wheel, where the repository is known."""
    repository, commit = os.environ.get("GITHUB_REPOSITORY"), os.environ.get("GITHUB_SHA", "main")
    if not repository:
        return {}
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    home = f"https://github.com/{repository}"
    return {
        "long_description": with_absolute_links(readme, repository, commit),
        "url": home,
        "project_urls": {
            "Source": home,
            "Documentation": f"{home}/tree/main/docs",
            "Issues": f"{home}/issues",
            "Changelog": f"{home}/blob/main/CHANGELOG.md",
            "Specification": "https://github.com/qienhuang/F-I-T",
        },
    }


if __name__ == "__main__":
    setup(**about_the_repository())
