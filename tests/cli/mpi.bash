# Several ranks in tests: 'need_mpi' ends the test, loudly, where there are none; 'mpi ARGS...' is 'run' of mpirun;
# 'alike NAME LOG LOG' compares two runs.
unset WISP_MPI OMPI_COMM_WORLD_SIZE PMI_SIZE MV2_COMM_WORLD_SIZE SLURM_STEP_NUM_TASKS

# mpi ARGS...: as run, of mpirun; a job that hangs has failed
mpi() {
    timeout -k 5 "${MPI_TIMEOUT:-100}" mpirun "$@" >out 2>err </dev/null
    rc=$?
}

need_mpi() {
    if ! command -v mpirun >/dev/null; then
        skip "several ranks" "there is no mpirun; apt-get install -y libopenmpi-dev openmpi-bin, then make again"
        end
    fi
    if [ ! -f "$build/wisp-mpi.so" ]; then
        skip "several ranks" "this build has no wisp-mpi.so (no mpicc, MPI=0 or a sanitizer)"
        end
    fi
    # Open MPI refuses root, and more ranks than cores, unless told, and binds ranks to cores; others do not look at these.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_btl_vader_single_copy_mechanism=none
    export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none TMPDIR=$work
    mpi -np 2 true
    if [ $rc != 0 ]; then
        bad "mpirun" "cannot start two processes"
        end
    fi
}

# alike NAME WHOLE PART: a log tells of the same steps, losses and P@k as that of the whole run, for the epochs that it has
alike() {
    check "$1" /usr/bin/python3 - "$2" "$3" <<'PY'
import json, sys
whole, part = ([json.loads(line) for line in open(name)] for name in sys.argv[1:3])
whole = {x["epoch"]: x for x in whole}
assert part, "an empty log"
for y in part:
    x = whole[y["epoch"]]
    for key in ("step", "active_mean", "scored_mean"):
        assert x[key] == y[key], (key, x[key], y[key])
    most = 2e-5 if x["epoch"] < 3 else 1e-3  # sums of ranks round otherwise, and training amplifies it
    assert abs(x["loss"] - y["loss"]) < most * x["loss"], (y["epoch"], x["loss"], y["loss"])
    for key in ("valid_p@1", "valid_p@3", "valid_p@5"):
        assert abs(x[key] - y[key]) < (0.34 if x["epoch"] < 3 else 1.4), (key, x[key], y[key])
PY
}
