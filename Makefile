# wisp: one Makefile, no configure step.
#   make, make demo, make test, make SAN=1 test, make check-all, make lint, make format, make bench, make dist, make wheel, make deb,
#   make install
# Where nvcc is found the part for cards, wisp-cuda.so, is built too; CUDA=0 leaves it out.  Where mpicc is found so is the
# part for several processes, wisp-mpi.so; MPI=0 leaves it out.  Where oneDNN's header is found so is wisp-dnnl.so, for
# convolutions; DNNL=0 leaves it out.  Where libmicrohttpd's header is found so is wisp-http.so, for servers; HTTP=0 leaves it
# out.
# Optional: V=1 (show commands)  CC=clang  SAN=1 (address, undefined)  SAN=thread  WERROR=1  BUILD=folder  PREFIX=/usr/local  DESTDIR=
# All cores, unless -j says otherwise.
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
VERSION := $(shell sed -n 's/^.define WISP_VERSION "\(.*\)"/\1/p' include/wisp/wisp.h)
ABI     := $(shell sed -n 's/^.define WISP_ABI \(.*\)/\1/p' include/wisp/wisp.h)
comma   := ,
Q       := $(if $(V),,@)
PREFIX  ?= /usr/local
SAN     ?=
BUILD   ?= build$(if $(SAN),-san$(filter thread,$(SAN)))

CFLAGS  ?= -O2 -g
FLAGS   := -std=c11 -D_GNU_SOURCE -Iinclude -Isrc -I. -fPIC -pthread -Wall -Wextra -Wpedantic -Wshadow -Wmissing-prototypes \
           -Wvla -fvisibility=hidden -ffp-contract=off -MMD -MP $(if $(WERROR),-Werror)
FLAGS   += $(if $(filter 1,$(SAN)),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
FLAGS   += $(if $(filter thread,$(SAN)),-fsanitize=thread)
FLAGS   += $(if $(SAN),-DWISP_BORDERS)
FLAGS   += $(CPPFLAGS)
LIBS    := $(LDFLAGS) -lz -lzstd -lxxhash -ljansson -ldl -lm

CUDA    ?= $(if $(SAN),0,$(if $(shell command -v nvcc),1,0))
ARCHS   ?= 75 80 90
CU      := $(sort $(wildcard src/cuda/*.cu))
CUOBJ   := $(CU:%.cu=$(BUILD)/%.o) $(patsubst %,$(BUILD)/src/%.o,graph/fuse graph/arena graph/spill graph/lots base/error base/mem base/text base/cut)
CUTEST  := $(patsubst tests/%.cu,$(BUILD)/tests/%,$(sort $(wildcard tests/gpu/*.cu)))
NVCC    := nvcc -std=c++17 -O3 -lineinfo -Iinclude -Isrc -Itests -Xcompiler -fPIC,-fvisibility=hidden,-Wall -MMD -MP \
           $(foreach a,$(ARCHS),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) \
           -gencode arch=compute_$(lastword $(ARCHS))$(comma)code=compute_$(lastword $(ARCHS))

MPI     ?= $(if $(SAN),0,$(if $(shell command -v mpicc),1,0))
MPICC   := OMPI_CC='$(CC)' MPICH_CC='$(CC)' mpicc
MPIOBJ  := $(BUILD)/src/comm/comm_mpi.o

# build/.setup says what tools/setup has found: make reads it again once it is made.  What is for cards alone needs no package.
ifneq ($(if $(MAKECMDGOALS),$(filter-out clean lint format gpu-tests $(BUILD)/wisp-cuda.so,$(MAKECMDGOALS)),all),)
-include build/.setup
endif
DNNL    ?= $(if $(SAN),0,$(HAS_DNNL))
DNNLOBJ := $(BUILD)/src/conv/conv_dnnl.o
HTTP    ?= $(HAS_HTTP)
HTTPSRC := serve/http_mhd.c serve/conns.c serve/listen.c serve/text.c
HTTPOBJ := $(HTTPSRC:%.c=$(BUILD)/%.o)

SRC     := $(filter-out src/comm/comm_mpi.c src/conv/conv_dnnl.c,$(sort $(wildcard src/*/*.c)))
# The command and its server; what wisp-http.so alone needs is left out.
CLI     := $(filter-out $(filter-out serve/text.c,$(HTTPSRC)),$(sort $(wildcard cli/*.c serve/*.c)))
OBJ     := $(SRC:%.c=$(BUILD)/%.o) $(BUILD)/nets.o $(BUILD)/style.o
NETS    := $(sort $(wildcard nets/*.net))
CLIOBJ  := $(CLI:%.c=$(BUILD)/%.o) $(BUILD)/pages.o
PAGES   := $(sort $(wildcard serve/pages/*))
UNIT    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/unit/*.c tests/property/*.c)))
FUZZ    := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(sort $(wildcard tests/fuzz/*.c)))

.PHONY: all gpu-tests demo test test-programs check-all lint format bench dist wheel deb install clean setup
# Parts that are opened when they are asked for.
PARTS   := $(patsubst %,$(BUILD)/wisp-%.so,$(if $(filter 1,$(CUDA)),cuda) $(if $(filter 1,$(MPI)),mpi) \
                                           $(if $(filter 1,$(DNNL)),dnnl) $(if $(filter 1,$(HTTP)),http))
all: $(BUILD)/wisp $(BUILD)/libwisp.a $(BUILD)/libwisp.so $(PARTS)

# Packages are looked for once per checkout; 'tools/setup' installs what is missing or names it.
build/.setup: tools/setup
	@mkdir -p build && CPPFLAGS='$(CPPFLAGS)' LDFLAGS='$(LDFLAGS)' tools/setup build || exit 1; \
	echo '#include <dnnl.h>' | $(CC) $(CPPFLAGS) -E - >/dev/null 2>&1; echo "HAS_DNNL := $$((1 - $$?))" >$@; \
	echo '#include <microhttpd.h>' | $(CC) $(CPPFLAGS) -E - >/dev/null 2>&1; echo "HAS_HTTP := $$((1 - $$?))" >>$@
setup: build/.setup
$(filter-out $(CUOBJ),$(OBJ)) $(CLIOBJ) $(HTTPOBJ): | build/.setup

$(BUILD)/src/kernels/avx2.o $(BUILD)/src/kernels/%_avx2.o: FLAGS += -mavx2 -mfma
$(BUILD)/src/kernels/avx512.o $(BUILD)/src/kernels/%_avx512.o: FLAGS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512
$(BUILD)/src/kernels/bf16.o:   FLAGS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mprefer-vector-width=512
$(BUILD)/src/kernels/amx.o:    FLAGS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mamx-tile -mamx-bf16 -mprefer-vector-width=512

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo '  cc   $<'
	$(Q)$(CC) $(FLAGS) $(CFLAGS) -c $< -o $@
# The nets of nets/ as one table of texts.
$(BUILD)/nets.c: $(NETS) Makefile
	@mkdir -p $(@D)
	@{ echo '/* Made of nets/ by the Makefile. */'; echo '#include "model/nets.h"'; echo '#include <stddef.h>'; \
	  echo 'const struct wisp_preset wisp_presets[] = {'; \
	  for f in $(NETS); do echo "{ \"$$(basename $$f .net)\","; sed 's/[\\"]/\\&/g; s/^/"/; s/$$/\\n"/' $$f; echo '},'; done; \
	  echo '{ NULL, NULL } };'; } >$@
$(BUILD)/nets.o: $(BUILD)/nets.c
	@echo '  cc   nets'
	$(Q)$(CC) $(FLAGS) $(CFLAGS) -c $< -o $@
# The style sheet of all pages, for reports.  A file as numbers: $(call bytes,FILE).
bytes = od -An -v -tx1 $(1) | sed 's/ \(..\)/0x\1,/g'
$(BUILD)/style.c: serve/pages/wisp.css Makefile
	@mkdir -p $(@D)
	@{ echo '/* Made of $< by the Makefile. */'; echo '#include "report/style.h"'; echo 'const char wisp_style[] = {'; $(call bytes,$<); \
	  echo '};'; echo 'const size_t wisp_style_bytes = sizeof wisp_style;'; } >$@
# The pages as one table, for the command.
TYPES   := html=text/html;css=text/css;js=text/javascript;svg=image/svg+xml
$(BUILD)/pages.c: $(PAGES) Makefile
	@mkdir -p $(@D)
	@{ echo '/* Made of serve/pages/ by the Makefile. */'; echo '#include "serve/pages.h"'; \
	  i=0; for f in $(PAGES); do i=$$((i + 1)); echo "static const unsigned char page_$$i[] = {"; $(call bytes,$$f); echo '};'; done; \
	  echo 'const struct page pages[] = {'; \
	  i=0; for f in $(PAGES); do i=$$((i + 1)); type=$$(echo '$(TYPES)' | tr ';' '\n' | sed -n "s/^$${f##*.}=//p"); \
	  echo "{ \"$${f##*/}\", \"$$type; charset=utf-8\", page_$$i, sizeof page_$$i },"; done; \
	  echo '{ 0 } };'; } >$@
$(BUILD)/style.o $(BUILD)/pages.o: $(BUILD)/%.o: $(BUILD)/%.c
	@echo '  cc   $*'
	$(Q)$(CC) $(FLAGS) $(CFLAGS) -c $< -o $@
$(BUILD)/libwisp.a: $(OBJ)
	@echo '  ar   $@'; rm -f $@
	$(Q)$(AR) rcs $@ $(OBJ)
$(BUILD)/libwisp.so: $(OBJ)
	@echo '  link $@'
	$(Q)$(CC) $(FLAGS) $(CFLAGS) -shared -Wl,-soname,libwisp.so.$(ABI) -Wl,--no-undefined $(OBJ) -o $@ $(LIBS)
	$(Q)ln -sf libwisp.so $@.$(ABI)
$(BUILD)/wisp: $(CLIOBJ) $(BUILD)/libwisp.a
	@echo '  link $@'
	$(Q)$(CC) $(FLAGS) $(CFLAGS) $^ -o $@ $(LIBS)

# The scan, the output layer and convolutions have a form in instructions of sm_90 alone, which no later card has.
$(BUILD)/src/cuda/scan.o $(BUILD)/src/cuda/out_wgmma.o $(BUILD)/src/cuda/conv_tensor.o $(BUILD)/src/cuda/conv_tensor_w.o $(BUILD)/src/cuda/conv_skip.o $(BUILD)/src/cuda/conv_skip_w.o: NVCC += $(if $(filter 90,$(ARCHS)),-gencode arch=compute_90a$(comma)code=sm_90a)
$(BUILD)/%.o: %.cu
	@mkdir -p $(@D)
	@echo '  nvcc $<'
	$(Q)$(NVCC) -c $< -o $@
$(BUILD)/wisp-cuda.so: $(CUOBJ)
	@echo '  link $@'
	$(Q)nvcc -shared -cudart static -Xlinker --no-undefined $(CUOBJ) -o $@
$(BUILD)/tests/gpu/%: tests/gpu/%.cu $(CUOBJ)
	@mkdir -p $(@D)
	@echo '  nvcc $<'
	$(Q)$(NVCC) $< $(CUOBJ) -o $@
gpu-tests: $(CUTEST)

$(MPIOBJ): src/comm/comm_mpi.c
	@mkdir -p $(@D)
	@echo '  mpicc $<'
	$(Q)$(MPICC) $(FLAGS) $(CFLAGS) -c $< -o $@
$(BUILD)/wisp-mpi.so: $(MPIOBJ)
	@echo '  link $@'
	$(Q)$(MPICC) $(CFLAGS) -shared -Wl,--no-undefined $(MPIOBJ) -o $@ $(LDFLAGS)

$(BUILD)/wisp-dnnl.so: $(DNNLOBJ)
	@echo '  link $@'
	$(Q)$(CC) $(FLAGS) $(CFLAGS) -shared -Wl,--no-undefined $(DNNLOBJ) -o $@ $(LDFLAGS) -ldnnl -lgomp -lpthread

$(BUILD)/wisp-http.so: $(HTTPOBJ)
	@echo '  link $@'
	$(Q)$(CC) $(FLAGS) $(CFLAGS) -shared $(if $(SAN),,-Wl,--no-undefined) $(HTTPOBJ) -o $@ $(LDFLAGS) -lmicrohttpd -lm

# In two steps: a library that changed is linked to tests that did not.
$(BUILD)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	@echo '  cc   $<'
	$(Q)$(CC) $(FLAGS) -Itests $(CFLAGS) -c $< -o $@
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libwisp.a
	$(Q)$(CC) $(FLAGS) $(CFLAGS) $< $(BUILD)/libwisp.a -o $@ $(LIBS)
.PRECIOUS: $(BUILD)/tests/%.o
# Makes calls of the C library fail, for tests/faults; a sanitizer keeps its own malloc.
INJECT  := $(BUILD)/tests/faults/inject.so
MUTATOR := $(BUILD)/tests/faults/mutator
$(INJECT): tests/faults/inject.c
	@mkdir -p $(@D)
	@echo '  cc   $<'
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -fPIC -shared -pthread -O2 -g $(if $(SAN),-DNO_MALLOC) $< -o $@ -ldl
$(BUILD)/tour: docs/examples/tour.c $(BUILD)/libwisp.a
	@echo '  cc   $<'
	$(Q)$(CC) -std=c11 -pthread -Iinclude $(if $(SAN),$(FLAGS)) $(CFLAGS) $< $(BUILD)/libwisp.a -o $@ $(LIBS)

demo: all
	@tools/demo $(BUILD)
test-programs: all $(UNIT) $(FUZZ) $(BUILD)/tour $(INJECT) $(MUTATOR)
test: test-programs
	@tests/run $(BUILD)
check-all:
	@tools/check-all
lint:
	@tools/lint
format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cu' '*.cuh')
bench: all
	@bench/run $(BUILD)

# A folder that runs on a bare machine: the command and the libraries it needs beside it.
dist: all
	@tools/dist $(BUILD) dist
# Wheels of the Python package in dist/, with the command inside.
wheel:
	@MAKEFLAGS= tools/wheel dist
# Debian packages in dist/.
deb:
	@MAKEFLAGS= tools/deb dist
# Libraries go to LIBDIR, parts that are opened at run time to PREFIX/lib/wisp.
ZSH     ?= zsh/site-functions
LIBDIR  ?= $(PREFIX)/lib
TO      := $(DESTDIR)$(PREFIX)
LIBTO   := $(DESTDIR)$(LIBDIR)
install: all
	install -d $(TO)/bin $(LIBTO)/pkgconfig $(TO)/lib/wisp $(TO)/include/wisp \
	           $(addprefix $(TO)/share/,man/man1 bash-completion/completions $(ZSH) fish/vendor_completions.d)
	$(BUILD)/wisp help man > $(TO)/share/man/man1/wisp.1
	for c in $$($(BUILD)/wisp help man | sed -n 's/^\.BR wisp.-\([a-z]*\) (1)$$/\1/p'); do \
	    $(BUILD)/wisp help man $$c > $(TO)/share/man/man1/wisp-$$c.1 || exit 1; done
	$(BUILD)/wisp help bash > $(TO)/share/bash-completion/completions/wisp
	$(BUILD)/wisp help zsh > $(TO)/share/$(ZSH)/_wisp
	$(BUILD)/wisp help fish > $(TO)/share/fish/vendor_completions.d/wisp.fish
	install -m 755 $(BUILD)/wisp $(TO)/bin/
	install -m 644 $(BUILD)/libwisp.a $(LIBTO)/
	$(if $(PARTS),install -m 644 $(PARTS) $(TO)/lib/wisp/)
	install -m 644 $(BUILD)/libwisp.so $(LIBTO)/libwisp.so.$(VERSION)
	ln -sf libwisp.so.$(VERSION) $(LIBTO)/libwisp.so.$(ABI)
	ln -sf libwisp.so.$(ABI) $(LIBTO)/libwisp.so
	install -m 644 include/wisp/wisp.h $(TO)/include/wisp/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' tools/wisp.pc.in > $(LIBTO)/pkgconfig/wisp.pc
clean:
	rm -rf build build-* dist

-include $(CUOBJ:.o=.d) $(MPIOBJ:.o=.d) $(DNNLOBJ:.o=.d) $(HTTPOBJ:.o=.d) $(addsuffix .d,$(CUTEST)) $(OBJ:.o=.d) $(CLIOBJ:.o=.d) $(addsuffix .d,$(UNIT) $(FUZZ) $(MUTATOR))
