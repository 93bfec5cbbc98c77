# Start Jupyter where the platform shows it (docs/sessions.md). Work is kept beside the job's checkpoints.
#
# The platform asks who may see the page. Other jobs on the same node can reach its loopback all the same, so
# Jupyter keeps a token of its own; it is in the log of the job, and the page asks for it once.
exec python -m jupyter "${NOTEBOOK_PAGE:-lab}" \
    --ip 127.0.0.1 --port "$ALLOT_PORT_NOTEBOOK" --no-browser --allow-root \
    --ServerApp.base_url "$ALLOT_PATH_NOTEBOOK" \
    --ServerApp.root_dir "$ALLOT_CHECKPOINT_DIR" \
    --ServerApp.allow_remote_access True
