# Snaptide with a Java runtime: worker, beat, command line, and Spark's own processes.
FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home snaptide \
 && install --directory --owner snaptide /var/lib/snaptide

WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt '.[spark]'

# Spark's scripts look here; Snaptide would find it by itself.
ENV SPARK_HOME=/usr/local/lib/python3.11/site-packages/pyspark

# Not /src: what runs is what was installed.
WORKDIR /home/snaptide
USER snaptide
CMD ["snaptide", "--help"]
