# soundwhere on a processor: no GPU, not as root, and nothing written outside of /data and /tmp. docs/deploy.md says how to run it.
#   docker build -t soundwhere .
#   docker build -t soundwhere --build-arg TORCH_INDEX=ADDRESS .    the index of CPU builds that PyTorch's installation page names
FROM python:3.11-slim-bookworm AS build
ARG TORCH_INDEX=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /source
COPY constraints.txt pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/soundwhere \
    && /opt/soundwhere/bin/python -m pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} -c constraints.txt torch
COPY src ./src
RUN /opt/soundwhere/bin/python -m pip install -c constraints.txt . \
    && /opt/soundwhere/bin/soundwhere doctor

FROM python:3.11-slim-bookworm
COPY --from=build /opt/soundwhere /opt/soundwhere
RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin soundwhere \
    && install -d -o soundwhere -g soundwhere -m 0750 /data
ENV PATH=/opt/soundwhere/bin:$PATH HOME=/data XDG_CACHE_HOME=/tmp/cache PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8765 8766
ENTRYPOINT ["soundwhere"]
CMD ["serve", "--host", "0.0.0.0", "--work", "/data/clips", "--no-browser"]
