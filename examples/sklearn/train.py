"""Learn handwritten digits with scikit-learn's `partial_fit`, a batch at a time.

    python train.py --epochs 5

Needs scikit-learn. The estimator is saved whole, as joblib does it; stopped and started again, it ends with
the same coefficients.
"""

import argparse
import hashlib
import time

import joblib
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

import allot.training

BATCH, TEST_IMAGES = 32, 300

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--epochs", type=int, default=5, help="(5)")
parser.add_argument("--step-seconds", type=float, default=0.0, help="pause per step, to watch it (0)")
options = parser.parse_args()

images, labels = load_digits(return_X_y=True)
images /= 16.0
test_images, test_labels = images[:TEST_IMAGES], labels[:TEST_IMAGES]
images, labels = images[TEST_IMAGES:], labels[TEST_IMAGES:]
model = SGDClassifier(loss="log_loss", random_state=0)


def load(folder):
    global model
    model = joblib.load(folder / "model.joblib")


with allot.training.session(
    save=lambda folder: joblib.dump(model, folder / "model.joblib"), load=load, every_seconds=30
) as run:
    sampler = run.sampler(len(labels), seed=0)
    steps_an_epoch = -(-len(labels) // BATCH)
    for step in run.steps(options.epochs * steps_an_epoch):
        batch = sampler.take(BATCH)
        model.partial_fit(images[batch], labels[batch], classes=range(10))
        time.sleep(options.step_seconds)
        if step % 10 == 9:
            accuracy = model.score(test_images, test_labels)
            run.report(accuracy=accuracy, epoch=sampler.epochs_done, epochs=options.epochs, batch_size=BATCH)

digest = hashlib.sha256(model.coef_.tobytes()).hexdigest()
print(f"done: test accuracy {model.score(test_images, test_labels):.4f}, coefficients {digest[:16]}")
