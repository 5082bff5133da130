# wisp on CPUs: the command and the Python package in a small image.
#   docker build -f tools/container/cpu.Dockerfile -t wisp .
#   docker run --rm -v "$PWD:/data" wisp train questions.csv -o model
FROM debian:12-slim AS build
# Versions of a stable distribution change with security updates only.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        binutils ca-certificates gcc git libc6-dev libjansson-dev libmicrohttpd-dev libpng-dev libturbojpeg0 libxxhash-dev libzstd-dev make \
        python3 python3-numpy python3-pip python3-scipy zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
COPY . /src
WORKDIR /src
RUN CUDA=0 tools/wheel /wheels

FROM debian:12-slim
# Versions of a stable distribution change with security updates only.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-numpy python3-pip python3-scipy \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --break-system-packages --no-deps /wheels/wisp-*.whl \
    && rm -r /wheels \
    && useradd --create-home --uid 1000 wisp
USER 1000
WORKDIR /data
ENTRYPOINT ["wisp"]
CMD ["help"]
