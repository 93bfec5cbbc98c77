"""What a job brings along for its working folders: fetched, kept, checked and unpacked."""
