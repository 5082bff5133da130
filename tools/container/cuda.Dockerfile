# wisp on NVIDIA cards: the same with the part for cards, which needs nothing of CUDA but the driver of the host.
#   docker build -f tools/container/cuda.Dockerfile -t wisp-cuda .
#   docker run --rm --gpus all -v "$PWD:/data" wisp-cuda train questions.csv -o model --device cuda
FROM nvidia/cuda:12.6.3-devel-ubuntu22.04 AS build
ARG ARCHS="75 80 90"
# Versions of a stable distribution change with security updates only.
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        binutils ca-certificates gcc git libc6-dev libjansson-dev libmicrohttpd-dev libpng-dev libturbojpeg libxxhash-dev libzstd-dev make \
        python3 python3-numpy python3-pip python3-scipy zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
COPY . /src
WORKDIR /src
RUN ARCHS="$ARCHS" tools/wheel /wheels

FROM nvidia/cuda:12.6.3-base-ubuntu22.04
# Versions of a stable distribution change with security updates only.
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        python3-numpy python3-pip python3-scipy \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-deps /wheels/wisp-*.whl /wheels/wisp_cuda-*.whl \
    && rm -r /wheels \
    && useradd --create-home --uid 1000 wisp
USER 1000
WORKDIR /data
ENTRYPOINT ["wisp"]
CMD ["help"]
