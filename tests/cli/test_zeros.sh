#!/usr/bin/env bash
# Training with zeros skipped is the same training: losses of 50 steps and gradients, small nets, all instruction sets.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$root/tests/agree" "$build" >out 2>err
rc=$?
check "losses and gradients agree" [ "$rc" = 0 ]
check "four nets, 50 steps" [ "$(grep -cE '^(lenet|like (alexnet|vgg16|resnet18)) +(scalar|avx2|avx512) +50 ' out)" -ge 4 ]
check "nothing was said" [ ! -s err ]
"$root/tests/agree" "$build" "image, conv 8 3, relu, conv 8 3, relu, flatten" --pixels 8 --steps 4 --most=-1 --isa scalar >out 2>err
rc=$?
check "what is too far apart is seen" [ "$rc-$(grep -c 'too far apart' out)" = 1-1 ]
end
