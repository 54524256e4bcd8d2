# A node with the environment variables, the port and the volumes of Apache Kafka's image. docs/guide.md says more.
FROM python:3.13-slim AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE ./
COPY src src
RUN python -m pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN python -m pip install --no-cache-dir --no-index --find-links /wheels highwater \
    && rm -rf /wheels \
    && useradd --create-home appuser \
    && mkdir -p /var/lib/kafka/data /mnt/shared/config \
    && chown -R appuser /var/lib/kafka /mnt/shared/config
COPY docker/launch.py docker/server.properties /opt/highwater/
USER appuser
EXPOSE 9092
VOLUME ["/var/lib/kafka/data", "/mnt/shared/config"]
CMD ["python", "/opt/highwater/launch.py"]
