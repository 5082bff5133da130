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
"$root/tests/agree" "$build" "image, conv 16 3, relu, maxpool 2, conv 16 3, relu, flatten" --pixels 12 --steps 10 --ways winograd,direct --shaken 1e-6 >out 2>err
check "Winograd's losses and gradients agree, too" [ "$?-$(grep -c ' 10 ' out)" = "0-$(grep -cE ' (scalar|avx2|avx512) ' out)" ]
"$root/tests/agree" "$build" lenet "image, conv 32 5 stride=2 bias=no, bn, relu, maxpool 2, conv 16 3, relu, flatten, dense 8, relu" --channels 1 --pixels 28 --steps 10 --smooth --trials 2 --shaken 1e-6 >out 2>err
check "nets without jumps agree to rounding, a preset's and a text's" [ "$?-$(grep -c ' 10 ' out)" = "0-$(grep -cE ' (scalar|avx2|avx512) ' out)" ]
check "by far less than the bar" [ "$(awk 'NR > 1 && ($(NF - 4) > 1e-5 || $(NF - 3) > 3e-5) { n++ } END { print n + 0 }' out)" = 0 ]
"$root/tests/agree" "$build" "image, conv 16 3, relu, flatten" --pixels 8 --steps 8 --train "--lr 0.01" --shaken 0.1 --isa scalar --no-gradients >out 2>err
check "other weights, other losses" [ "$(awk 'NR == 2 { print ($(NF - 1) > 1e-4) }' out)" = 1 ]
end
