# The server (web, worker, beat) and the node agent, in one image. docker-compose.yml runs it.

FROM node:22-bookworm-slim@sha256:43ac6c60b8f89723f746e8a92ce91abd5017e627ce1ddfe4238355d3a30b772c AS dashboard
WORKDIR /build/frontend
COPY frontend/package.json frontend/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY frontend/ ./
RUN npm run build


FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b AS documentation
WORKDIR /build
COPY constraints.txt mkdocs.yml ./
RUN pip install --no-cache-dir --constraint constraints.txt mkdocs-material
COPY docs/ docs/
COPY scripts/documentation.py scripts/
RUN NO_MKDOCS_2_WARNING=1 mkdocs build --quiet


FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
RUN useradd --system --uid 10001 --create-home --home-dir /home/allotment allotment \
    && install --directory --owner allotment --mode 0700 /var/lib/allotment
WORKDIR /app

# Dependencies first: this layer is built again only when they change. Installed as "editable", since
# the server serves frontend/dist from beside its sources.
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY platform/nodeagent/pyproject.toml platform/nodeagent/
COPY platform/allot/pyproject.toml platform/allot/
RUN pip install --constraint constraints.txt \
    --editable "platform/nodeagent[sandbox,slurm]" --editable platform/allot --editable .

COPY manage.py ./
COPY platform/ platform/
COPY tenants/ tenants/
COPY scheduler/ scheduler/
COPY --from=dashboard /build/frontend/dist/ frontend/dist/
COPY --from=documentation /build/site/ site/

USER 10001
EXPOSE 8000 8001
CMD ["python", "-m", "controlplane.uvicorn_server", "--host", "0.0.0.0", "--port", "8000"]
