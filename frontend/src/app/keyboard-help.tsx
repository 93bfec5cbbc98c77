import { useRouterState } from "@tanstack/react-router";

import { helpFor } from "@/app/help";
import { Dialog } from "@/ui/dialog";
import { groupsOfKeys, shownKeys } from "@/ui/keys";
import styles from "@/app/palette.module.css";

/** Shows every key of the dashboard. */
export function KeyboardHelp({ onClose }: { onClose: () => void }) {
  const path = useRouterState({ select: (state) => state.location.pathname });
  return (
    <Dialog open onClose={onClose} title="Keyboard">
      {groupsOfKeys().map(({ where, keys }) => (
        <section key={where}>
          <h3>{where}</h3>
          <dl className={styles.table}>
            {keys.map((key) => (
              <div key={key.does}>
                <dt>
                  {shownKeys(key).map((shown) => (
                    <kbd key={shown}>{shown}</kbd>
                  ))}
                </dt>
                <dd>{key.does}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
      <p className={styles.keys}>
        The <a href={helpFor(path)}>documentation of this page</a> says what it shows.
      </p>
    </Dialog>
  );
}
