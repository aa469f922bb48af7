-- Answers the epoch.
return {epoch()}
