# Every target runs one script under scripts/. `make` alone lists them.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
# `make -j ipvs flush-nat` runs one target after the other; the scripts themselves run independent work in parallel.
.NOTPARALLEL:
# `make check-2 step=web` would grade the whole lab: variables are named in capitals. A loop over `name` would hide the variable of that name.
SMALL := a after ask boot capture claim class class_key_file cluster cmd dir down endpoints file fix from hard hint host id incident json kernel kube_proxy_version lab learner list max n name next nft node objects page_port plain port q room scheduler seed show step svg tests tier to verbose version yes
MISSPELT := $(firstword $(foreach .small,$(SMALL),$(if $(findstring command line,$(origin $(.small))),$(.small))))
ifneq ($(MISSPELT),)
$(error The names of variables are in capitals: write $(shell echo $(MISSPELT) | tr a-z A-Z)= instead of $(MISSPELT)=)
endif
# Variables typed after a target are passed on as plain text: without this line make would expand functions in them. Recipes never contain a
# variable's text, only the shell's quoted "$$NAME"; `export`, because an overridden variable would not reach the scripts.
$(foreach name,$(.VARIABLES),$(if $(findstring $$,$(name)),,$(if $(filter command,$(firstword $(origin $(name)))),$(eval export override $(name) := $$(value $(name))))))
# Node.js cannot load modules from such a path and prints a stack trace.
ifneq ($(findstring \,$(CURDIR)),)
$(error The path of this folder, "$(CURDIR)", contains a backslash, which Node.js does not support: rename or move the folder)
endif
# In a folder that was unpacked from the offline archive, only the archive's programs run.
ifneq ($(wildcard .offline/bin),)
ifneq ($(findstring :,$(CURDIR)),)
$(error The path of this folder, "$(CURDIR)", contains a colon, which separates folders in PATH: rename or move the folder)
endif
ifneq ($(shell uname -m),$(file <.offline/processor))
$(error This offline archive runs on $(file <.offline/processor), and this is "$(shell uname -m)": take a clone of the repository and run make doctor there)
endif
export PATH := $(CURDIR)/.offline/bin:$(PATH)
endif
override RUN := node scripts/start.mjs
override NODE_MODULES := node_modules/.package-lock.json
# The text that was typed for %, such as the 2 of lab-2.
%: override export STEM = $*
# A goal that does not exist.
%: override export GOAL = $@
# Nothing makes this file; without a rule of its own it would be such a goal for --always-make.
Makefile: ;
.DEFAULT:
	@awk -f scripts/nearest-target.awk Makefile

##@ Labs
lab-%: $(NODE_MODULES) FORCE ## Work through a lab, graded step by step (make lab-2; ROOM=… joins a class)
	@$(RUN) scripts/lab.ts "$$STEM"
guide: $(NODE_MODULES) ## Work through a lab in the browser, with terminals and a view of the dataplane (LAB=2, else the one begun last; PORT=…)
	@$(RUN) scripts/guide.ts
check-%: $(NODE_MODULES) FORCE ## Grade a lab on the running cluster (STEP=2 or STEP=id for one step)
	@$(RUN) scripts/grade.ts "$$STEM" $${STEP:+--step="$$STEP"}
solve-%: $(NODE_MODULES) FORCE ## Run the reference solution of a lab (STEP=2 or STEP=id for one step)
	@$(RUN) scripts/solve.ts "$$STEM" $${STEP:+--step="$$STEP"}
reset-%: $(NODE_MODULES) FORCE ## Reset a lab to its starting state
	@$(RUN) scripts/reset.ts "$$STEM"
hint: $(NODE_MODULES) ## Show a hint for the first open step (LAB=2 STEP=3 TIER=1..)
	@$(RUN) scripts/hint.ts $${LAB:+"$$LAB"} $${STEP:+--step="$$STEP"} $${TIER:+--tier="$$TIER"}
answer: $(NODE_MODULES) ## Answer a lab's question and have it graded (Q=step, its id or number, A='…' LAB=1)
	@$(RUN) scripts/answer.ts
incident: $(NODE_MODULES) ## Start an incident to diagnose and repair (LAB=3 SEED=7 INCIDENT=id HARD=1 HINT=1 SHOW=1 LIST=1)
	@$(RUN) scripts/incident.ts
exam: $(NODE_MODULES) ## Begin or show an exam: incidents in a row, without instructions (SEED=7 N=3 HARD=1; NEXT=1 hands in)
	@$(RUN) scripts/exam.ts
raise-hand: $(NODE_MODULES) ## Ask the instructor for help, in the room of a class (DOWN=1 lowers it)
	@$(RUN) scripts/raise-hand.ts
room-answer: $(NODE_MODULES) ## Answer a poll or a task of the room (A='…')
	@$(RUN) scripts/room-answer.ts
leave-room: $(NODE_MODULES) ## Leave the room of a class: nothing more is sent
	@$(RUN) scripts/leave-room.ts
measure: $(NODE_MODULES) ## Measure both modes at growing numbers of Services, for lab 6 (MAX=3000 ENDPOINTS=3; NFT=1 nftables mode instead; SHOW=1, or SHOW=change)
	@$(RUN) scripts/measure.ts

##@ Cluster
up: $(NODE_MODULES) ## Start the cluster, or finish starting it
	@$(RUN) scripts/up.ts
down: $(NODE_MODULES) ## Stop the cluster and remove everything it created
	@$(RUN) scripts/down.ts
status: $(NODE_MODULES) ## Show the running cluster and its kube-proxy mode
	@$(RUN) scripts/status.ts
doctor: $(NODE_MODULES) ## Show which clusters and labs this machine can run, and how to fix the rest
	@$(RUN) scripts/doctor.ts
env: $(NODE_MODULES) ## Print shell lines that point kubectl at the cluster: eval "$$(make env)"
	@$(RUN) scripts/env.ts
shell: $(NODE_MODULES) ## Open a shell on a node (NODE=k8s-guide-worker)
	@$(RUN) scripts/exec.ts --shell
exec: $(NODE_MODULES) ## Run one command on a node (NODE=… CMD='ipvsadm -Ln')
	@$(RUN) scripts/exec.ts
aliases: $(NODE_MODULES) ## Print the short commands ipt, ipv and ips for a node: eval "$$(make aliases)"
	@$(RUN) scripts/env.ts --aliases
capture: $(NODE_MODULES) ## Write the state of every node to a folder (DIR=captures/…)
	@$(RUN) scripts/capture.ts
trace: $(NODE_MODULES) ## Draw the path of a packet (FROM=pod/NAME|host|outside TO=svc/web:80 NODE=… VERBOSE=1 SVG=path.svg)
	@$(RUN) scripts/trace.ts $${FROM:+--from="$$FROM"} $${TO:+--to="$$TO"} $${NODE:+--node="$$NODE"} $${SVG:+--svg="$$SVG"}

migration: $(NODE_MODULES) ## Report what another mode of kube-proxy would change for each Service (TO=nftables FROM=ipvs OBJECTS=file CAPTURE=DIR NODE=… JSON=1)
	@$(RUN) scripts/migration.ts $${TO:+--to="$$TO"} $${FROM:+--from="$$FROM"} $${OBJECTS:+--objects="$$OBJECTS"} $${CAPTURE:+--capture="$$CAPTURE"} $${NODE:+--node="$$NODE"} $${KUBE_PROXY_VERSION:+--kube-proxy="$$KUBE_PROXY_VERSION"}

##@ kube-proxy
ipvs: $(NODE_MODULES) ## Switch kube-proxy to IPVS mode (SCHEDULER=rr KUBE_PROXY_VERSION=1.20)
	@$(RUN) scripts/mode.ts ipvs
iptables: $(NODE_MODULES) ## Switch kube-proxy to iptables mode
	@$(RUN) scripts/mode.ts iptables
nftables: $(NODE_MODULES) ## Switch kube-proxy to nftables mode (kind, or KERNEL=host)
	@$(RUN) scripts/mode.ts nftables
userspace: $(NODE_MODULES) ## Switch to kube-proxy 1.20 in userspace mode (embedded; back: make iptables KUBE_PROXY_VERSION=own)
	@$(RUN) scripts/mode.ts userspace
flush-nat: $(NODE_MODULES) ## Remove the rules that other modes left on every node
	@$(RUN) scripts/flush-nat.ts
kube-proxy-logs: $(NODE_MODULES) ## Show the logs of every kube-proxy
	@$(RUN) scripts/kube-proxy-logs.ts
web: $(NODE_MODULES) ## Deploy nginx as `web`, two replicas behind one ClusterIP
	@$(RUN) scripts/web.ts
tools: $(NODE_MODULES) ## Install ipset and ipvsadm on every node
	@$(RUN) scripts/tools.ts
node-image: $(NODE_MODULES) ## Add ipset and ipvsadm to kind's node image and fetch the labs' images, for use offline
	@$(RUN) scripts/node-image.ts

##@ Instructors
room: $(NODE_MODULES) ## Open the room of a class, with a page that shows all learners (ROOM=spring HOST=… PORT=… PAGE_PORT=… PLAIN=1)
	@$(RUN) scripts/room.ts
submit: $(NODE_MODULES) ## Write a learner's submission (LEARNER=alice LAB=2)
	@$(RUN) scripts/submit.ts
grade-class: $(NODE_MODULES) ## Grade every file in submissions/ and write report.html and report.csv there
	@$(RUN) scripts/grade-class.ts --html submissions/report.html --csv submissions/report.csv submissions/*.labgrade
slides: $(NODE_MODULES) ## Build the slides of all labs into dist/slides, as HTML and PDF (downloads Chromium once)
	@$(RUN) scripts/slides.ts
present: $(NODE_MODULES) ## Build the slides and show them on this machine until Ctrl-C (PORT=…)
	@$(RUN) scripts/slides.ts --present
test-grader: $(NODE_MODULES) ## Test the grader: change recorded good captures and check that it notices (LAB=3 for one lab)
	@$(RUN) scripts/test-grader.ts $${LAB:+--lab "$$LAB"}

bundle: $(NODE_MODULES) ## Write the offline archive to dist/: it runs the labs on any Linux with this processor, without a network
	@$(RUN) scripts/bundle.ts

##@ Project
test: $(NODE_MODULES) ## Lint, check types and run the tests, of the labs only lab 2 (TESTS=all: everything, for over an hour)
	@$(RUN) scripts/test.ts
test-fast: $(NODE_MODULES) ## Lint, types, layers and the tests that start no program: for quick feedback
	@$(RUN) scripts/test.ts --fast
test-lab: $(NODE_MODULES) ## Play a lab on a cluster of its own: solved, each step broken, its text, scores without a thought (LAB=3)
	@$(RUN) scripts/test-lab.ts "$$LAB"
test-long: $(NODE_MODULES) ## Run what make test leaves out beside labs: the page, rooms, kernels that end, migration with real packets
	@TESTS=long node_modules/.bin/vitest run
test-incidents: $(NODE_MODULES) ## Cause and repair every incident of lab 8, as make test-lab LAB=8 does
	@$(RUN) scripts/test-lab.ts 8
test-bundle: bundle ## Solve and grade a lab from the offline archive in an empty root, without a network, as an ordinary user (LAB=2)
	@node_modules/.bin/vitest run --config vitest.kind.config.ts test/offline
lint-labs: $(NODE_MODULES) ## Check the course's files for mistakes (BOOT=1 also runs every lab; FIX=1 corrects minutes; LAB=2)
	@$(RUN) scripts/lint-labs.ts $${LAB:+"$$LAB"}
record-solved: $(NODE_MODULES) ## Record a lab as its reference solution solves it, for tests of the grader (LAB=2 FILE=lab-8-embedded-ipvs)
	@$(RUN) scripts/record-solved.ts "$$LAB" $${FILE:+--file="$$FILE"}
new-lab: $(NODE_MODULES) ## Create the files of a new lab (NAME=packet-captures)
	@$(RUN) scripts/new-lab.ts
new-step: $(NODE_MODULES) ## Add a step to a lab, to be written (LAB=3 AFTER=web ID=session-affinity ASK=question CLAIM=C4)
	@$(RUN) scripts/new-step.ts
e2e-kind: $(NODE_MODULES) ## Test every target and lab 2 on a kind cluster (needs a container engine)
	@$(RUN) scripts/e2e-kind.ts
bench: $(NODE_MODULES) ## Measure prediction, parsing, grading, start-up, a class of 1,000, and a room of 300
	@$(RUN) scripts/bench.ts
release: $(NODE_MODULES) ## Write a release's sources, SBOM, checksums and tag text to dist/, and tag nothing (VERSION=0.2.0)
	@$(RUN) scripts/release.ts
# On a terminal, descriptions are wrapped at words below each other.
help: ## Show this list
	@[ -t 1 ] && size=$$(stty size 2>/dev/null); awk -v columns="$${size#* }" ' \
	  BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-zA-Z0-9_%-]+:.*## / { \
	    sub(/%/, "N", $$1); gsub(/[$$][$$]/, "$$", $$2); \
	    line = sprintf("  %-16s", $$1); count = split($$2, words, " "); indent = sprintf("%18s", ""); \
	    for (i = 1; i <= count; i++) { \
	      if (columns && line != indent && length(line " " words[i]) > columns) { print line; line = indent } \
	      line = line " " words[i] \
	    } \
	    print line \
	  }' Makefile

$(NODE_MODULES): package.json package-lock.json
	@$(RUN)
	@sh scripts/install.sh && touch $@
FORCE:
.PHONY: FORCE guide room raise-hand room-answer leave-room hint answer incident exam measure up down status doctor env shell exec aliases capture trace migration ipvs iptables nftables userspace flush-nat kube-proxy-logs web tools submit grade-class test-grader test test-fast test-lab test-long test-incidents lint-labs record-solved new-lab new-step e2e-kind slides present bundle test-bundle bench release help
