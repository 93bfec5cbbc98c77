import { getRouteApi } from "@tanstack/react-router";

import { words } from "@/components/format";
import { SecretsPanel } from "@/components/secrets/secrets-panel";
import { useSession } from "@/components/session";
import { PasswordPanel } from "@/features/account/password-panel";
import { TokensPanel } from "@/features/account/tokens-panel";
import { NotificationsPanel } from "@/features/account/notifications-panel";
import { Segments } from "@/ui/choice";
import { Facts, PageLayout, Panel, Stack } from "@/ui/layout";
import { chooseTheme, useThemeChoice } from "@/ui/theme";
import styles from "@/features/account/account.module.css";

const route = getRouteApi("/account");

export function AccountPage() {
  const { confirm } = route.useSearch();
  const me = useSession();
  const theme = useThemeChoice();
  return (
    <PageLayout title="Account">
      <div className={styles.columns}>
        <Stack>
          <Panel title="You">
            <Facts
              facts={[
                ["User name", me.user.username],
                ["Email", me.user.email || "–"],
                ["Rights", me.is_operator ? "Operator of the cluster" : rightsOf(me.tenants)],
              ]}
            />
          </Panel>
          <Panel title="Theme">
            <Segments
              label="Theme"
              value={theme}
              onChange={chooseTheme}
              options={[
                { value: "system", label: "As the system" },
                { value: "light", label: "Light" },
                { value: "dark", label: "Dark" },
              ]}
            />
          </Panel>
          <NotificationsPanel confirm={confirm} />
          <PasswordPanel />
        </Stack>
        <Stack>
          <TokensPanel />
          <SecretsPanel owner={null} mayChange />
        </Stack>
      </div>
    </PageLayout>
  );
}

function rightsOf(tenants: readonly { name: string; role: string }[]): string {
  return tenants.map(({ name, role }) => `${words(role)} of ${name}`).join(", ") || "Member of no tenant";
}
