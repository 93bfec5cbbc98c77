# Start Jupyter where the platform shows it (docs/sessions.md). Work is kept beside the job's checkpoints.
#
# The platform asks who may see the page. Other jobs on the same node can reach its loopback all the same, so
# Jupyter keeps a token of its own; it is in the log of the job, and the page asks for it once.
page="${NOTEBOOK_PAGE:-lab}"
python=python
if ! python -m jupyter "$page" --version >/dev/null 2>&1; then
    # Beside the checkpoints, so that the next attempt finds it.
    own="$ALLOT_CHECKPOINT_DIR/.jupyter"
    python="$own/bin/python"
    if ! "$python" -m jupyter "$page" --version >/dev/null 2>&1; then
        echo "Jupyter is not installed here: pip installs it beside the checkpoints. The page opens in a minute or two."
        if ! { python -m venv --system-site-packages "$own" && "$python" -m pip install --quiet jupyterlab notebook; } \
            >"$ALLOT_CHECKPOINT_DIR/.jupyter.log" 2>&1; then
            # This code: it could not be started, and another attempt would not help.
            echo "pip could not install Jupyter: add jupyterlab to the node's Python or name an image that has it."
            exit 127
        fi
    fi
fi
exec "$python" -m jupyter "$page" \
    --ip 127.0.0.1 --port "$ALLOT_PORT_NOTEBOOK" --no-browser --allow-root \
    --ServerApp.base_url "$ALLOT_PATH_NOTEBOOK" \
    --ServerApp.root_dir "$ALLOT_CHECKPOINT_DIR" \
    --ServerApp.allow_remote_access True
