"""A support vector machine on time surfaces, in an environment of its own: features on disk in, answers out.

python surfaces_svm.py FEATURES.npz ANSWERS.json; the arrays are train_TAU and test_TAU (N, D) for each decay, and labels.
Decay, kernel and C are those with the best 5-fold accuracy on the training set, which the test set does not see.
"""

import json
import sys

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


def main(features: str, answers: str) -> None:
    """Fit and answer."""
    data = np.load(features)
    labels = data["labels"]
    best, told = None, {}
    for name in sorted(key for key in data.files if key.startswith("train_")):
        for scaled in (False, True):
            machine = make_pipeline(StandardScaler(), SVC()) if scaled else make_pipeline(SVC())
            grid = [
                {"svc__kernel": ["linear"], "svc__C": [0.001, 0.01, 0.1, 1, 10]},
                {"svc__kernel": ["rbf"], "svc__C": [0.1, 1, 10, 100], "svc__gamma": ["scale"]},
            ]
            search = GridSearchCV(machine, grid, cv=StratifiedKFold(5, shuffle=True, random_state=0))
            search.fit(data[name], labels)
            if best is None or search.best_score_ > best:
                best = search.best_score_
                told = {
                    "answers": search.predict(data[name.replace("train_", "test_")]).tolist(),
                    "chosen": {**search.best_params_, "surface": name.removeprefix("train_"), "scaled": scaled},
                    "cross_validated": float(best),
                }
    with open(answers, "w") as file:
        json.dump(told, file)


if __name__ == "__main__":
    main(*sys.argv[1:3])
