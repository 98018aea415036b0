# Targets of the real serving environment; the Makefile includes this file.
.PHONY: serving-env serve bench-serving

serving-env: ## Ray Serve LLM and vLLM on CPU, once (2 minutes, 3.4 GB, outside the checkout)
	@$(PYTHON) -m tools.serving build

serve: $(VENV)/.dev serving-env ## serve STACK (local) on loopback with the real Ray and vLLM
	@$(BIN)/python -m llmp serve --stack $(or $(filter-out prod,$(STACK)),local)
