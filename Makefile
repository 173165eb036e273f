# Everything lives in .venv and in the user's cache; `make demo` is all a new clone needs.
PYTHON ?= python3
PIP_FLAGS ?=
BIN := .venv/bin
RAGLA := $(BIN)/ragla

.PHONY: setup models demo test test-extras check bench clean

setup: .venv/.ready

# the extension modules are built anew when their sources change
.venv/.ready: pyproject.toml constraints.txt hatch_build.py $(wildcard ragla/trie/_*.[ch] ragla/decode/backend/_*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ragla needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@echo 'Installing torch, transformers, FAISS and the tools of the tests into .venv: minutes, and 1.8 GB of disk'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt -e '.[dev]'
	@touch $@

# the models that tests use; the one that the demo uses is ten times larger
models: setup
	$(RAGLA) models pull minilm-l6 smollm2-135m

demo: setup
	$(RAGLA) models pull minilm-l6 qwen2.5-coder-1.5b
	$(RAGLA) index corpora/handbook --profile offline
	@for question in \
	    "My hardware key has disappeared. What are the steps?" \
	    "What is the most I may pay for a hotel room in Paris?" \
	    "发红色提醒需要几个人签？另一个人找不到怎么办？"; \
	do printf '\n$$ ragla ask --profile offline "%s"\n\n' "$$question"; \
	    $(RAGLA) ask --profile offline "$$question" || exit 1; done

# two at a time: most tests keep one core busy, and each process may hold a 1.5B model
test: models
	$(BIN)/python -m pytest -n 2 --dist worksteal --ignore tests/extras

# what needs ragla[ray,milvus]: they are installed here, so that `make test` before it is what holds without them
test-extras: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt 'ragla[ray,milvus]'
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests/extras

check: setup
	$(BIN)/ruff check ragla tests scripts hatch_build.py
	$(BIN)/ruff format --check ragla tests scripts hatch_build.py
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: models
	$(RAGLA) index corpora/handbook --profile tiny
	$(RAGLA) bench --profile tiny --compare greedy,hf-greedy,hf-prompt-lookup

clean:
	rm -rf .venv .ragla build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
