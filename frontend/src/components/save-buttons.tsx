import { Button } from "@/ui/button";
import { Row } from "@/ui/layout";

interface SaveButtonsProps {
  /** Whether there is something to save. */
  isChanged: boolean;
  busy: boolean;
  onDiscard: () => void;
}

/** At the foot of a form that stands on a page. */
export function SaveButtons({ isChanged, busy, onDiscard }: SaveButtonsProps) {
  return (
    <Row>
      <Button type="submit" busy={busy} disabled={!isChanged}>
        Save
      </Button>
      {isChanged && (
        <Button look="quiet" onClick={onDiscard}>
          Discard the changes
        </Button>
      )}
    </Row>
  );
}
