#!/usr/bin/env bash
# Build the site of the documents into dist/site: the spelling is checked first, and a dead link is an error.
# The generator is pinned in tools/site/requirements.txt and lives in the user's cache.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

environment=${XDG_CACHE_HOME:-$HOME/.cache}/workbench/site
recipe=$(cksum <tools/site/requirements.txt)
if [ "$(cat "$environment/recipe" 2>/dev/null)" != "$recipe" ]; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" --disable-pip-version-check install -q -r tools/site/requirements.txt
  printf '%s\n' "$recipe" >"$environment/recipe"
fi

"$environment/bin/codespell" --ignore-words tools/site/words.txt README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md pytorch/README.md docs/*.md docs/formulations/*.md
NO_MKDOCS_2_WARNING=1 "$environment/bin/mkdocs" build --strict --quiet
echo "dist/site/index.html"
