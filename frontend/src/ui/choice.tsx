import { Tabs as TabsPrimitive, ToggleGroup } from "radix-ui";
import type { ReactNode } from "react";

import styles from "@/ui/choice.module.css";

interface Option<V extends string> {
  value: V;
  label: ReactNode;
}

interface SegmentsProps<V extends string> {
  label: string;
  value: V;
  options: readonly Option<V>[];
  onChange: (value: V) => void;
}

/** One of a few, all in sight. */
export function Segments<V extends string>({ label, value, options, onChange }: SegmentsProps<V>) {
  return (
    <ToggleGroup.Root
      type="single"
      aria-label={label}
      className={styles.segments}
      value={value}
      onValueChange={(chosen) => chosen && onChange(chosen as V)}
    >
      {options.map((option) => (
        <ToggleGroup.Item key={option.value} value={option.value} className={styles.segment}>
          {option.label}
        </ToggleGroup.Item>
      ))}
    </ToggleGroup.Root>
  );
}

interface TabsProps<V extends string> {
  label: string;
  value: V;
  onChange: (value: V) => void;
  tabs: readonly { value: V; label: ReactNode; content: () => ReactNode }[];
}

/** Only the chosen tab's content exists. */
export function Tabs<V extends string>({ label, value, onChange, tabs }: TabsProps<V>) {
  return (
    <TabsPrimitive.Root value={value} onValueChange={(chosen) => onChange(chosen as V)} className={styles.tabs}>
      <TabsPrimitive.List aria-label={label} className={styles.tabList}>
        {tabs.map((tab) => (
          <TabsPrimitive.Trigger key={tab.value} value={tab.value} className={styles.tab}>
            {tab.label}
          </TabsPrimitive.Trigger>
        ))}
      </TabsPrimitive.List>
      {tabs.map((tab) => (
        <TabsPrimitive.Content key={tab.value} value={tab.value} className={styles.tabContent}>
          {tab.value === value && tab.content()}
        </TabsPrimitive.Content>
      ))}
    </TabsPrimitive.Root>
  );
}
