# Targets around the real Ray Serve and vLLM on CPU; the Makefile includes this file.
REPORT ?=
ROUNDS ?= 3
CASES ?= spot
MODES ?= direct routed
.PHONY: serving-env test-serving serve bench-serving bench-scaling bench-drain bench-compare bench-tuning live-metrics

serving-env: ## Ray Serve LLM and vLLM on CPU, once (2 minutes, 3.4 GB, outside the checkout)
	@$(PYTHON) -m tools.serving build

serve: $(VENV)/.dev serving-env ## serve STACK (local) on loopback by the real Ray and vLLM
	@$(BIN)/python -m llmp serve --stack $(or $(STACK),local)

test-serving: $(VENV)/.dev serving-env ## the OpenAI SDK against the real Ray and vLLM in both modes; part of `make test` too (5 minutes)
	@$(BIN)/python -m pytest -m serving_real

bench-serving: $(VENV)/.dev serving-env ## what the serving layer costs over bare vLLM (REPORT=FILE, ROUNDS=3; 20 minutes)
	@$(BIN)/python -m bench.serving_cost --rounds $(ROUNDS) $(if $(REPORT),--report $(REPORT) --picture $(basename $(REPORT)).svg)

bench-scaling: $(VENV)/.dev serving-env ## the scaling policy on real metrics through a real Prometheus (MODES, REPORT=FILE; 15 minutes)
	@$(BIN)/python -m bench.scaling --modes $(MODES) $(if $(REPORT),--report $(REPORT))

bench-drain: $(VENV)/.dev serving-env ## streams in flight while a node, a replica or the head is lost (CASES, REPORT=FILE)
	@$(BIN)/python -m bench.drain $(CASES) $(if $(REPORT),--report $(REPORT))

bench-compare: $(VENV)/.dev serving-env ## whether `llmp compare` is right: the same endpoint again, and one a tenth slower (ROUNDS=3; 5 minutes)
	@$(BIN)/python -m bench.compare_real --rounds $(ROUNDS)

bench-tuning: $(VENV)/.dev serving-env ## the guides' tuning matrix, run and ranked (REPORT=FILE; 6 minutes)
	@$(BIN)/python -m bench.tuning $(if $(REPORT),--report $(REPORT))

live-metrics: $(VENV)/.dev serving-env ## scrape the metric names of the pinned vLLM under Ray anew
	@$(BIN)/python -m bench.live_metrics
